"""The algorithm contract: one abstract class, whose defaults are those of a team that plays as it is.

An algorithm is built as `Algorithm(team, sampling, config)`. It names its communication protocol, its options, who
speaks and what is played for it, and it can be saved. A learner overrides `update`; `learner.PolicyLearner` does all of
the rest for learners whose policies step on texts with advantages.
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
    """Options of an algorithm; this one has nothing to set."""

    least_group_size: ClassVar[int] = 1
    """Fewest episodes per task to learn anything from: 2 where the episodes of a group are compared."""


class Algorithm:
    """Plays trajectories with its team as it is; a subclass that overrides `update` learns from them.

    Args:
        team: Who plays: what is loaded, trained and saved.
        sampling: How texts are drawn.
        config: Options.

    Attributes:
        protocol: Its communication protocol: "parallel", "centralized", "sequential" or "discussion".
        Config: The class of its options.
        shows_texts: Its policies are shown the texts of others, which a table cannot be.
        rollout: What training plays for it; an evaluation plays independent trajectories.
        baseline_scope: The returns that its baseline is made of; for its control, see `controls`.
        updaters: What moves the weights of its policies.
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
        """Who speaks, in training and in evaluation: the team, unless it acts in another way."""
        return self.team

    @property
    def rollout(self) -> Rollout:
        """What training plays for it; an evaluation plays independent trajectories."""
        return Trajectories()

    @classmethod
    def incompatibility(cls, config: Any, env: TextDecPOMDP) -> str:
        """Return the reason why it cannot learn in an environment, else "" (the default).

        An override calls this one first.

        Args:
            config: Its options.
            env: The environment, under the protocol of its team.
        """
        return ""

    # --- learning -----------------------------------------------------------------------------------------------------

    @classmethod
    def learns(cls) -> bool:
        """Whether it is a learner."""
        return cls.update is not Algorithm.update

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Learn from groups of episodes; returns numbers by name to draw as curves, {} for none."""
        raise NotImplementedError(f"{type(self).__name__} does not learn; override update(groups)")

    def check_compatible(self, env: TextDecPOMDP) -> None:
        """Raise ConfigError if it cannot learn in an environment; see `incompatibility`."""
        if why := self.incompatibility(self.config, env):
            raise ConfigError(f"{why}; take a learner that fits")

    @property
    def baseline_scope(self) -> controls.BaselineScope:
        """The returns that its baseline is made of; for its control."""
        return "group"

    def shuffle_rewards(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups for its shuffled-reward control."""
        return controls.shuffle_rewards(groups, self.baseline_scope)

    def begin(self) -> None:
        """Start from the team as it is now, which others have trained meanwhile; see `Updater.begin`."""
        for updater in self.updaters:
            updater.begin()

    def expect(self, updates: int, *, stale: bool = False) -> None:
        """Take the run's number of updates, for schedules, and whether texts are drawn with older weights.

        Called before the first update and after a restart.
        """
        for updater in self.updaters:
            updater.expect(updates, stale=stale)

    def learning_rates(self) -> dict[str, float]:
        """The learning rates of the agents that learn, before their schedule; {} where it does not say it."""
        return {agent: rate for updater in self.updaters for agent, rate in updater.learning_rates().items()}

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that has to survive a restart beside the weights of its team: nested dictionaries of tensors and values.

        These are the states of its updaters; a learner that knows more adds to it.
        """
        return {"updaters": [updater.state_dict() for updater in self.updaters]} if self.updaters else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""
        for updater, saved in zip(self.updaters, state.get("updaters", ()), strict=True):
            updater.load_state_dict(saved)
