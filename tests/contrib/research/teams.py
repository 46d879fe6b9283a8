"""Ways to play research-v0 in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.types import Event, Message

Say = Callable[[str, Sequence[Message]], str]


def research(**options: Any) -> Any:
    """The environment."""
    return llm_dec_pomdp.make("research-v0", **options)


def play(env: Any, say: Say, **options: Any) -> tuple[Mapping[str, float], list[Event]]:
    """One episode: the last rewards, and all events."""
    env.reset(seed=options.pop("seed", 0), options=options or {"index": 0})
    rewards: Mapping[str, float] = {}
    events: list[Event] = []
    while env.agents:
        _, rewards, *_ = env.step({a: say(a, env.history(a)) if env.asked(a) else "" for a in env.agents})
        events += env.latest.transition.events
    return rewards, events


def main_says(*texts: str, sub: Say) -> Say:
    """Main says these in turn, sub-agents what `sub` says."""
    left = list(texts)

    def say(agent: str, history: Sequence[Message]) -> str:
        return left.pop(0) if agent == "agent_0" else sub(agent, history)

    return say
