"""What `keys-v0` and its form for a single agent share: table, keys, passages, the reward of the answer."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from ....types import Message, Score, TaskItem
from ...base import Say
from ...facts import Facts
from ...task import Task
from ...tasks import TaskSource
from .worlds import World, read_world, sample_tasks


class _OfTask(Protocol):
    @property
    def item(self) -> TaskItem: ...


S = TypeVar("S", bound=_OfTask)
Told = Mapping[str, "str | Message"]
_FILLER = 8  # different words that say nothing


class Lookup(Task[S]):
    """A question over a table whose relations are filed under keys.

    Attributes:
        relations: R.
        entities: E.
        delegations: D, how often something may be looked up.
        context: How many words of its history the agent with the question sees; 0: all.
        filler: Meaningless words in a passage.
    """

    declared = Facts(name="lookup", components=("format", "correct"), score_range=(0.0, 1.0), scripts=("optimal",))
    source = TaskSource("keys", required=("prompt", "facts"), sample=functools.partial(sample_tasks, 3, 16))

    def set_size(self, relations: int, entities: int, delegations: int, context: int, filler: int) -> None:
        """Set the options; embedded tasks are drawn in that size."""
        least = {"relations": 2, "entities": 2, "delegations": 1, "context": 0, "filler": 0}
        values = (relations, entities, delegations, context, filler)
        for (name, low), value in zip(least.items(), values, strict=True):
            if isinstance(value, bool) or not isinstance(value, int) or value < low:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"{name} is {value!r}; it must be an integer of at least {low}")
        self.relations, self.entities, self.delegations, self.context, self.filler = values
        numbered = {"e": entities, "r": relations, "k": relations, "f": _FILLER}
        words = [f"{letter}{number}" for letter, count in numbered.items() for number in range(count)]
        self.declared = replace(self.declared, vocabulary=("Q", "S", "R", "P", "ANS", "none", *words))
        sample = functools.partial(sample_tasks, relations, entities)
        self.source = TaskSource("keys", required=("prompt", "facts"), sample=sample)  # type: ignore[misc]

    @property
    def facts(self) -> Facts:
        """The optimum is 1, where it is known."""
        return replace(self.declared, optimum=1.0 if self.solvable else None)

    @property
    @abstractmethod
    def solvable(self) -> bool:
        """Whether both hops fit into lookups, turns and context."""

    def script(self, name: str) -> Say:
        """ "optimal" looks up one hop after the other and answers."""
        return self._optimal if name == "optimal" else super().script(name)

    @abstractmethod
    def _optimal(self, agent: str, history: Sequence[Message]) -> str: ...

    def problem(self, item: TaskItem) -> str:
        """A question or a table that cannot be read, or one of another size."""
        try:
            facts = self.world(item).facts
        except ValueError as error:
            return str(error)
        size = len(facts), len(facts[0])
        if size != (self.relations, self.entities):
            return (
                f"field 'facts': has {size[0]} relations and {size[1]} entities; set relations={size[0]} and "
                f"entities={size[1]}, or give rows of {self.relations} and {self.entities}"
            )
        return ""

    def describe(self, state: S) -> Mapping[str, Any]:
        """The table."""
        return {"facts": state.item.fields["facts"]}

    def world(self, item: TaskItem) -> World:
        """The question and its table."""
        return read_world(item.prompt, item.fields["facts"])

    def filed_under(self, key: int) -> int:
        """The relation that a key holds, the inverse of `key_of`."""
        return (key - 1) % self.relations

    def passage(self, entity: int, random: np.random.Generator) -> str:
        """The text under a key: an entity among meaningless words."""
        words = [f"f{number}" for number in random.integers(_FILLER, size=self.filler)]
        words.insert(int(random.integers(self.filler + 1)), f"e{entity}")
        return " ".join(["P", *words])

    def seen(self, words: Sequence[str]) -> str:
        """The end of a history that fits into the context."""
        return " ".join(words[-self.context :])

    def score(self, *, formed: bool, correct: bool, facts: Mapping[str, float]) -> Score:
        """R_M = 0.1 format + 0.9 correct, or 0 where the format is invalid (arXiv:2511.13288)."""
        parts = {"format": 0.1 * formed, "correct": 0.9 * (formed and correct)}
        return Score(sum(parts.values()), parts, facts)

    def refuse_foreign(self, words: Sequence[str], first: str) -> None:
        """Refuse a history that was cut by the context or belongs to another task, with a ValueError."""
        if words[:1] != [first]:
            raise ValueError(
                f"the optimal team of {self.metadata['name']} needs a history that begins with {first!r}, but this one "
                f"begins {' '.join(words)[:40]!r}; give it the whole history (context=0, or at least 10)"
            )


def key_of(relation: int, relations: int) -> int:
    """sigma: the key that a relation is filed under."""
    return (relation + 1) % relations


def number_of(text: str, letter: str, count: int) -> int | None:
    """The number j of a text that is `letter` and j, below `count`; None for any other text."""
    names: dict[Any, int] = {f"{letter}{number}": number for number in range(count)}
    return names.get(text)
