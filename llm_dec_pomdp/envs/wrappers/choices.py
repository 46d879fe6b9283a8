"""Choice among offered texts, for policies that cannot write, such as tables.

    env = Choices(make("coophumaneval-v2"), offers)

Each agent observes the offered texts below its first observation, each under a letter, and acts with a letter. The task
receives the text in place of the letter. Any other action reaches the task unchanged.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from ...seeding import derive
from ...types import Group, Message, TaskItem
from ..base import Script, TextDecPOMDP
from ..facts import Facts
from ..task import Task, Transition
from .base import TaskWrapper

Offers = Callable[[TaskItem, str], Mapping[str, str]]
_REQUEST = "\n\nAnswer with the letter of one of these texts, or write another text."


class Offered(NamedTuple):
    """The state of `Choices`."""

    inner: Any  # state of the task
    item: TaskItem
    is_first: bool = True


class Choices(TaskWrapper[Offered]):
    """A task whose agents choose among texts.

    The order of the letters depends only on the texts, so it does not reveal their kinds. `measure` adds a table with
    the share of each kind among the last actions of each role.

    Args:
        env: A task without a protocol. Protocols wrap `Choices`.
        offers: Returns for a task and a role the offered texts by kind, at most 26 different ones. The number of texts
            of a role is the same in all tasks. Roles with an empty mapping write freely.

    Raises:
        TypeError: `env` is not a task.
        ValueError: No role has texts, or one has a different number in two tasks, more than 26, or the same twice.
    """

    def __init__(self, env: TextDecPOMDP, offers: Offers) -> None:
        if not isinstance(env, Task):
            name = env.metadata["name"]
            raise TypeError(f"{name} is a {type(env).__name__}; Choices wraps a task, and protocols wrap Choices")
        super().__init__(cast("Task[Any]", env), "choices")
        self._offers = offers
        self._letters = {agent: self._letters_of(agent) for agent in env.possible_agents}
        if not any(self._letters.values()):
            raise ValueError(f"{self.env.metadata['name']} offers no texts to choose among; leave `candidates` out")

    def _letters_of(self, agent: str) -> tuple[str, ...]:
        role, counts = self.role(agent), dict[int, str]()
        for item in self.items:
            texts = list(self._offers(item, role).values())
            if len(set(texts)) < len(texts) or len(texts) > len(string.ascii_uppercase):
                raise ValueError(
                    f"task {item.id!r} offers {len(texts)} texts to {role!r}; give at most 26, no two equal"
                )
            counts[len(texts)] = item.id
        if len(counts) > 1:
            raise ValueError(f"{role!r} has a different number of texts in tasks ({counts}); offer as many in each")
        return tuple(string.ascii_uppercase[: next(iter(counts), 0)])

    @property
    def facts(self) -> Facts:
        """Letters of several agents in one action stand below headers, also where the task reads one module."""
        return replace(super().facts, joined_as_module=False, default_model="")

    def lettered(self, item: TaskItem, agent: str) -> dict[str, str]:
        """Return the offered texts of an agent by letter."""
        texts = sorted(self._offers(item, self.role(agent)).values(), key=lambda text: derive(0, text))
        return dict(zip(self._letters[agent], texts, strict=True))

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the letters of an agent; () for one that writes freely."""
        return self._letters[agent]

    def initial_state(self, item: TaskItem, seed: int) -> Offered:
        """Return the initial state of the task, with the row."""
        return Offered(self.env.initial_state(item, seed), item)

    def observations(self, state: Offered) -> Mapping[str, str | Message]:
        """Return the observations of the task, the first ones with the offered texts."""
        observed: Mapping[str, str | Message] = super().observations(state)
        return (
            {agent: self._offer(state.item, agent, text) for agent, text in observed.items()}
            if state.is_first
            else observed
        )

    def _offer(self, item: TaskItem, agent: str, observed: str | Message) -> str | Message:
        listed = "".join(f"\n\n{letter}:\n{text.strip()}" for letter, text in self.lettered(item, agent).items())
        if not listed or isinstance(observed, Message) or not observed:
            return observed
        return observed + _REQUEST + listed

    def transition(self, state: Offered, actions: Mapping[str, str], seed: int) -> Transition[Offered]:
        """Pass the chosen texts to the task."""
        step = self.env.transition(state.inner, self._written(state.item, actions), seed)
        return replace(step, state=Offered(step.state, state.item, is_first=False))

    def _written(self, item: TaskItem, actions: Mapping[str, str]) -> dict[str, str]:
        return {agent: self.lettered(item, agent).get(text.strip(), text) for agent, text in actions.items()}

    def script(self, name: str) -> Script:
        """Return the script of the task, which observes no offered texts."""
        say = self.env.script(name)

        def say_without_offer(agent: str, history: Sequence[Message]) -> str:
            return say(agent, [message._replace(text=message.text.partition(_REQUEST)[0]) for message in history])

        return say_without_offer

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the table "choices": the share of each kind among the last actions of each role, in %."""
        items = {item.id: item for item in self.items}
        counts: dict[str, int] = {}
        for group in groups:
            item = items[group.item_id]
            for episode in group.episodes:
                for agent, text in self._written(item, self._last_of(episode.last_texts)).items():
                    role = self.role(agent)
                    kinds = [kind for kind, offered in self._offers(item, role).items() if offered == text]
                    for kind in [*self._offers(item, role), "other"]:
                        counts.setdefault(f"{role}: {kind} %", 0)
                    counts[f"{role}: {kinds[0] if kinds else 'other'} %"] += 1
        episodes = sum(len(group.episodes) for group in groups)
        return {"choices": {name: 100 * count / episodes for name, count in counts.items()}} if episodes else {}

    def _last_of(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Return the last text of each agent, also where one agent wrote all parts."""
        parts = self.facts.split(next(iter(texts.values()))) if len(texts) == 1 else list(texts.values())
        return dict(zip(self.possible_agents, parts, strict=False))
