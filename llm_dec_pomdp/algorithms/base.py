"""The algorithm contract: one class, whose defaults play with a team and do not train it.

An algorithm is built as `Algorithm(team, sampling, config)`. It names its communication protocol, its options, its
acting policy and its rollout, and it can be saved. A learner overrides `update`. `learner.PolicyLearner` is the base of
learners that update policies on completions with advantages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..agents.base import Policy, Sampling, Team
from ..config import Config, ConfigError
from ..rollout import Rollout, Trajectories
from ..types import Group
from . import controls

if TYPE_CHECKING:
    from ..envs.base import TextDecPOMDP

Metrics = dict[str, float]


class Options(Config):
    """Options of an algorithm; by default there are none."""

    least_group_size: ClassVar[int] = 1
    """Smallest useful number of episodes per task: 2 if the episodes of a group are compared."""


class Algorithm:
    """Base of all algorithms: samples trajectories with its team; a subclass that overrides `update` trains on them.

    Args:
        team: The team that is loaded, trained and saved.
        sampling: Sampling of completions.
        config: Options.

    Attributes:
        protocol: Its communication protocol: "parallel", "centralized", "sequential" or "discussion".
        Config: The class of its options.
        shows_texts: Whether it trains policies on given texts (imitation, reward model); tables do not support this.
        rollout: The rollout of training; an evaluation plays independent trajectories.
        baseline_scope: The returns that its baseline is computed from; used by its shuffled-reward control, see
            `controls`.
        updaters: The updaters of its policies.
    """

    protocol: ClassVar[str] = "parallel"
    Config: ClassVar[type[Any]] = Options
    shows_texts: ClassVar[bool] = False
    updaters: Sequence[Any] = ()

    def __init__(self, team: Team, sampling: Sampling, config: Any = None) -> None:
        self.team = team
        self.sampling = sampling
        self.config = config or self.Config()

    # --- playing ------------------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy that acts in training and in evaluation: the team by default."""
        return self.team

    @property
    def rollout(self) -> Rollout:
        """The rollout of training; an evaluation plays independent trajectories."""
        return Trajectories()

    def training_env(self, env: TextDecPOMDP) -> TextDecPOMDP:
        """Return the environment of the next update: by default the one of the run."""
        return env

    @classmethod
    def incompatibility(cls, config: Any, env: TextDecPOMDP) -> str:
        """Return the reason why it cannot learn in an environment, else "" (the default).

        An override calls the inherited method first.

        Args:
            config: Its options.
            env: The environment, under the protocol of its team.
        """
        return ""

    # --- learning -----------------------------------------------------------------------------------------------------

    @classmethod
    def learns(cls) -> bool:
        """Return whether the algorithm is a learner, that is, overrides `update`."""
        return cls.update is not Algorithm.update

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Train on groups of episodes; return metrics by name, {} for none."""
        raise NotImplementedError(f"{type(self).__name__} does not learn; override update(groups)")

    def reward_range(self, env: TextDecPOMDP) -> tuple[float, float]:
        """Return the lowest and the highest reward of a turn on which it may be trained."""
        return env.facts.reward_range

    def check_compatible(self, env: TextDecPOMDP) -> None:
        """Raise ConfigError if it cannot learn in an environment; see `incompatibility`."""
        if why := self.incompatibility(self.config, env):
            raise ConfigError(f"{why}; choose a compatible learner")

    @property
    def baseline_scope(self) -> controls.BaselineScope:
        """The returns that its baseline is computed from; used by its shuffled-reward control."""
        return "group"

    def shuffle_rewards(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups for its shuffled-reward control."""
        return controls.shuffle_rewards(groups, self.baseline_scope)

    def reset_optimizer(self) -> None:
        """Make new optimizers for the current team, which other learners may have trained; see `Updater`."""
        for updater in self.updaters:
            updater.reset_optimizer()

    def expect(self, updates: int, *, stale: bool = False) -> None:
        """Set the run's number of updates, for schedules, and whether samples come from older weights.

        Called before the first update and after a restart.
        """
        for updater in self.updaters:
            updater.expect(updates, stale=stale)

    def scale_learning_rates(self, factor: float) -> None:
        """Multiply all learning rates, as they were configured, by a factor.

        The factor is not part of `state_dict`: the training loop calls this method again after a restart.

        Raises:
            ConfigError: The learner has no updaters.
        """
        if not self.updaters:
            raise ConfigError(
                f"on_divergence is 'rollback', but {type(self).__name__} has no updaters whose learning rate could be "
                "lowered; use 'stop', or override scale_learning_rates"
            )
        for updater in self.updaters:
            updater.scale_learning_rate(factor)

    def learning_rates(self) -> dict[str, float]:
        """Return the learning rates of the trained agents, before the schedule; {} if it does not report them."""
        return {agent: rate for updater in self.updaters for agent, rate in updater.learning_rates().items()}

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a restart needs besides the team's weights: nested dictionaries of tensors and values.

        By default these are the states of its updaters. A learner with further state adds to them.
        """
        return {"updaters": [updater.state_dict() for updater in self.updaters]} if self.updaters else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        for updater, saved in zip(self.updaters, state.get("updaters", ()), strict=True):
            updater.load_state_dict(saved)


class LearnerWrapper(Algorithm):
    """Base of learners around another learner; every method calls the inner learner's method.

    Args:
        learner: The inner learner.
    """

    def __init__(self, learner: Algorithm) -> None:
        super().__init__(learner.team, learner.sampling, learner.config)
        self.learner = learner

    @property
    def policy(self) -> Policy:
        """The policy of the learner."""
        return self.learner.policy

    @property
    def rollout(self) -> Rollout:
        """The rollout of the learner."""
        return self.learner.rollout

    def training_env(self, env: TextDecPOMDP) -> TextDecPOMDP:
        """See `Algorithm`."""
        return self.learner.training_env(env)

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Run an update of the learner."""
        return self.learner.update(groups)

    def reward_range(self, env: TextDecPOMDP) -> tuple[float, float]:
        """See `Algorithm`."""
        return self.learner.reward_range(env)

    def check_compatible(self, env: TextDecPOMDP) -> None:
        """See `Algorithm`."""
        self.learner.check_compatible(env)

    def expect(self, updates: int, *, stale: bool = False) -> None:
        """See `Algorithm`."""
        self.learner.expect(updates, stale=stale)

    def scale_learning_rates(self, factor: float) -> None:
        """See `Algorithm`."""
        self.learner.scale_learning_rates(factor)

    def learning_rates(self) -> dict[str, float]:
        """See `Algorithm`."""
        return self.learner.learning_rates()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the learner."""
        return self.learner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.learner.load_state_dict(state)
