"""Environments and teams of research-v0 for tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.contrib.research.choices import guessed
from llm_dec_pomdp.contrib.research.questions import embedded
from llm_dec_pomdp.contrib.research.scripts import Scripts, asked, call, meant
from llm_dec_pomdp.contrib.research.task import roles
from llm_dec_pomdp.types import Event, Message

LEADER = "agent_0"

Say = Callable[[str, Sequence[Message]], str]


def research(**options: Any) -> Any:
    """Return the environment."""
    return llm_dec_pomdp.make("research-v0", **options)


def play(env: Any, say: Say, **options: Any) -> tuple[Mapping[str, float], list[Event]]:
    """Run one episode and return the last rewards and all events."""
    env.reset(seed=options.pop("seed", 0), options=options or {"index": 0})
    rewards: Mapping[str, float] = {}
    events: list[Event] = []
    while env.agents:
        _, rewards, *_ = env.step({a: say(a, env.history(a)) if env.asked(a) else "" for a in env.agents})
        events += env.latest.transition.events
    return rewards, events


def main_says(*texts: str, sub: Say) -> Say:
    """Return a team in which main sends these texts in order, and sub-agents the texts of `sub`."""
    left = list(texts)

    def say(agent: str, history: Sequence[Message]) -> str:
        return left.pop(0) if agent == LEADER else sub(agent, history)

    return say


class Erring(Scripts):
    """Teams that make one mistake on embedded questions."""

    def __init__(self, env: Any) -> None:
        super().__init__(embedded(), roles(env.kinds, env.max_invocations), env.max_invocations)
        self.kinds = env.kinds

    def asks_twice(self, agent: str, history: Sequence[Message]) -> str:
        """Ask two sub-agents for the first step at once."""
        text = self.optimal(agent, history)
        return f"{_first_line(text)}\n{text}" if _begins(agent, history) else text

    def asks_another(self, agent: str, history: Sequence[Message]) -> str:
        """Ask the wrong specialist for the first step, and then the right one."""
        text = self.optimal(agent, history)
        others = [kind for kind in self.kinds if call("ask", kind)[:-1] not in text]
        first = re.sub(r'^ask\("[^"]*"', call("ask", *others[:1])[:-1], _first_line(text))
        return text.replace(_first_line(text), first, 1) if others and _begins(agent, history) else text

    def asks_vaguely(self, agent: str, history: Sequence[Message]) -> str:
        """Ask for the first step without naming the subject, and then again with the subject."""
        text = self.optimal(agent, history)
        if not _begins(agent, history):
            return text
        [(_, question)] = re.findall(r'^ask\("([^"]*)", "([^"]*)"\)', text)[:1]
        vague = asked(meant(question)[0], ("it", "it"))
        return text.replace(question, vague, 1)

    def misreads(self, agent: str, history: Sequence[Message]) -> str:
        """Answer with a wrong name or number from the reports."""
        text = self.optimal(agent, history)
        if agent != LEADER or text.startswith("ask("):
            return text
        return guessed(self.item(history), self.known(history), 0)

    def goes_on(self, agent: str, history: Sequence[Message]) -> str:
        """Ask for the first step once more, although the answer is known."""
        text = self.optimal(agent, history)
        lines = "\n".join(message.text for message in history if message.role == "action").split("\n")
        late = agent == LEADER and not text.startswith("ask(") and lines.count(lines[0]) == 1
        return lines[0] if late else text


def _begins(agent: str, history: Sequence[Message]) -> bool:
    return agent == LEADER and all(message.role != "action" for message in history)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
