"""The parts that all conformance checks share: the failure, and playing an episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...user_code import summary
from ..base import TextDecPOMDP


class CheckFailure(AssertionError):  # noqa: N818  # a failed check is an assertion
    """An environment fails a conformance check."""


def require(condition: bool, message: str) -> None:
    """Raise CheckFailure with `message` unless `condition` is true."""
    if not condition:
        raise CheckFailure(message)


def raised(error: BaseException) -> str:
    """Return an exception as text: its message, its line in user code, and the actions that led to it."""
    actions = [note for note in getattr(error, "__notes__", ()) if " acted " in note]
    return "; ".join([summary(error), *actions])


def play(env: TextDecPOMDP, options: Mapping[str, Any], say: Callable[[str, int], str]) -> Iterator[Any]:
    """Play an episode; yield the result of the reset and of every step."""
    yield env.reset(seed=1, options=dict(options))
    turn = 0
    while env.agents:
        yield env.step({agent: say(agent, turn) for agent in env.agents})
        turn += 1


def phases(env: TextDecPOMDP) -> int:
    """Return the number of turns of an environment per turn of the task inside it."""
    return env.max_turns // env.task.max_turns
