"""The algorithm contract.

An algorithm is built as `Algorithm(team, sampling, config)`. It names its communication protocol, its options, who
speaks and what is played for it, and it can be saved; a learner also has `update`. No base class is required, but
`Prompting` has all of this except `update`. `check_algorithm` says what a class lacks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from ..agents.base import Policy, Sampling, Team
from ..config import Config, ConfigError
from ..rollout import Rollout, Trajectories
from ..types import Group

if TYPE_CHECKING:
    from ..envs.base import TextDecPOMDP

Metrics = dict[str, float]


class NoOptions(Config):
    """The configuration of an algorithm that has nothing to set."""


class Player(Protocol):
    """Who plays, and what.

    Attributes:
        team: Policies of the agents: what is loaded, trained and saved.
    """

    team: Team

    @property
    def policy(self) -> Policy:
        """Who speaks, in training and in evaluation."""
        ...

    @property
    def rollout(self) -> Rollout:
        """What training plays for it; an evaluation plays independent trajectories."""
        ...


class Algorithm(Player, Protocol):
    """What the trainer and the benchmark know of an algorithm.

    Attributes:
        protocol: The communication protocol: "parallel", "centralized", "sequential" or "discussion".
        Config: The class of its options.
    """

    protocol: ClassVar[str]
    Config: ClassVar[type[Config]]

    def state_dict(self) -> dict[str, Any]:
        """All that has to survive a restart, as nested dictionaries of tensors and plain values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""
        ...


@runtime_checkable
class Learner(Player, Protocol):
    """An algorithm that learns."""

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Learn from groups of episodes; returns numbers by name to draw as curves, {} for none."""
        ...


def check_algorithm(kind: Any, name: str) -> None:
    """Raises ConfigError, which says what is missing, for a class that breaks the contract of `Algorithm`."""
    missing: list[str] = []
    if not isinstance(getattr(kind, "protocol", None), str):
        missing.append('protocol, under which its team acts ("parallel", ...)')
    options = getattr(kind, "Config", None)
    if not (isinstance(options, type) and issubclass(options, Config)):
        missing.append("Config, the class of its options (derived from llm_dec_pomdp.config.Config)")
    if not hasattr(kind, "policy"):
        missing.append("policy, who speaks (a property of the class)")
    if isinstance(getattr(kind, "rollout", type), type):
        missing.append("rollout, what is played for it (of the class: an object such as Trajectories(), or a property)")
    missing += [
        f"{method}()" for method in ("state_dict", "load_state_dict") if not callable(getattr(kind, method, None))
    ]
    if missing:
        raise ConfigError(
            f"algorithm {name!r} lacks {'; '.join(missing)}; derive it from llm_dec_pomdp.algorithms.base.Prompting, "
            "which has them"
        )
    try:
        inspect.signature(kind).bind("team", "sampling", "config")
    except TypeError as error:
        raise ConfigError(
            f"algorithm {name!r} cannot be built as {kind.__name__}(team, sampling, config): {error}; let its "
            "__init__ take these three"
        ) from None


def misfit(kind: Any, config: Any, env: TextDecPOMDP) -> str:
    """Why a learner cannot learn in an environment; "" where it can.

    Args:
        kind: Its class, or the learner. Where it has a method `misfit(config, env)`, that is asked too.
        config: Its options.
        env: The environment, under the protocol of the team.
    """
    if not env.joint_reward and not getattr(kind, "individual_rewards", False):
        name = getattr(kind, "__name__", type(kind).__name__)
        return f"{env.metadata['name']} pays its agents individually, and {name} learns from one reward of the team"
    asked: Callable[[Any, Any], str] | None = getattr(kind, "misfit", None)
    return asked(config, env) if asked else ""


def learning_rates(learner: Learner) -> dict[str, float]:
    """The learning rates of the agents that learn; {} where a learner does not say it, as `Prompting` does."""
    asked: Callable[[], dict[str, float]] | None = getattr(learner, "learning_rates", None)
    return asked() if callable(asked) else {}


class Prompting:
    """Plays trajectories with its team as it is.

    Args:
        team: Who plays.
        sampling: How texts are drawn.
        config: Options.
    """

    protocol: ClassVar[str] = "parallel"
    Config: ClassVar[type[Config]] = NoOptions
    rollout: Rollout = Trajectories()  # frozen
    updaters: Sequence[Any] = ()  # of a learner: what moves the weights of its policies
    individual_rewards: ClassVar[bool] = False  # True: learns from `Turn.rewards` where agents are paid individually
    shows_texts: ClassVar[bool] = False  # True: policies are shown the texts of others, which a table cannot be

    def __init__(self, team: Team, sampling: Sampling, config: Config | None = None) -> None:
        self.team = team
        self.sampling = sampling

    @classmethod
    def misfit(cls, config: Any, env: Any) -> str:
        """Why it cannot learn in an environment with these options; "" (the default) where it can. See `misfit`."""
        return ""

    @property
    def policy(self) -> Policy:
        """Who speaks: the team. A method whose team acts in another way overrides this, for training and evaluation."""
        return self.team

    def begin(self) -> None:
        """Start from the team as it is now, which others have trained meanwhile; see `Updater.begin`."""
        for updater in self.updaters:
            updater.begin()

    def expect(self, updates: int) -> None:
        """Take the run's number of updates, for schedules; called before the first update and after a restart."""
        for updater in self.updaters:
            updater.expect(updates)

    def learning_rates(self) -> dict[str, float]:
        """The learning rates of the agents that learn, before their schedule."""
        return {agent: rate for updater in self.updaters for agent, rate in updater.learning_rates().items()}

    def state_dict(self) -> dict[str, Any]:
        """The states of the updaters; a learner that knows more adds to it."""
        return {"updaters": [updater.state_dict() for updater in self.updaters]} if self.updaters else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        for updater, saved in zip(self.updaters, state.get("updaters", ()), strict=True):
            updater.load_state_dict(saved)
