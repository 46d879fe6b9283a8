"""The algorithm contract.

An algorithm is built as `Algorithm(team, sampling, config)`. It says under which communication protocol its team acts
and which options it has, acts, and can be saved; a learner also has `update`. No base class is required, but
`Prompting` has all of it except `update`. `check_algorithm` says what a class lacks.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from ..agents.base import Request, Sampling, Team
from ..config import Config, ConfigError
from ..seeding import derive
from ..types import Group, RolloutPlan

Metrics = dict[str, float]


class NoOptions(Config):
    """The configuration of an algorithm that has nothing to set."""


class Algorithm(Protocol):
    """What the trainer and the benchmark know of an algorithm.

    Attributes:
        protocol: Under which the team acts: "parallel", "centralized", "sequential" or "discussion".
        Config: Its options.
        team: Who acts.
    """

    protocol: ClassVar[str]
    Config: ClassVar[type[Config]]
    team: Team

    def act(self, histories: Mapping[str, Sequence[str]], seed: int = 0) -> dict[str, str]:
        """Decentralised execution: each agent's next text from its own history (o_0, a_0, ..., o_t) alone."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that has to survive a restart, as nested dictionaries of tensors and plain values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""
        ...


@runtime_checkable
class Learner(Protocol):
    """An algorithm that learns."""

    team: Team

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Learn from groups of episodes; returns numbers worth a curve by name, {} when there are none."""
        ...


@runtime_checkable
class Planner(Protocol):
    """A learner that wants more than G trajectories side by side to be played.

    Attributes:
        rollout: What the trainer is to collect for every task.
    """

    @property
    def rollout(self) -> RolloutPlan:
        """The plan; the groups of `update` are played by it."""
        ...


def check_algorithm(kind: Any, name: str) -> None:
    """Refuse a class that breaks the contract of `Algorithm`, before anything is built with it.

    Args:
        kind: What the name stands for.
        name: For the message.

    Raises:
        ConfigError: The message says what is missing.
    """
    missing: list[str] = []
    if not isinstance(getattr(kind, "protocol", None), str):
        missing.append('protocol, under which its team acts ("parallel", ...)')
    options = getattr(kind, "Config", None)
    if not (isinstance(options, type) and issubclass(options, Config)):
        missing.append("Config, the class of its options (derived from llm_dec_pomdp.config.Config)")
    missing += [
        f"{method}()"
        for method in ("act", "state_dict", "load_state_dict")
        if not callable(getattr(kind, method, None))
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


class Prompting:
    """Acts with its team as it is.

    Args:
        team: Who acts.
        sampling: How texts are drawn.
        config: Options.
    """

    protocol: ClassVar[str] = "parallel"
    Config: ClassVar[type[Config]] = NoOptions

    def __init__(self, team: Team, sampling: Sampling, config: Config | None = None) -> None:
        self.team = team
        self.sampling = sampling

    def act(self, histories: Mapping[str, Sequence[str]], seed: int = 0) -> dict[str, str]:
        """One text per agent, from its own history alone."""
        requests = [Request(agent, tuple(history), (derive(seed, agent),)) for agent, history in histories.items()]
        answers = self.team.generate(requests, self.sampling)
        return {request.agent: completions[0].text for request, completions in zip(requests, answers, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing to restore."""
