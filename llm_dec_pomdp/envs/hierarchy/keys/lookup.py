"""What `keys-v0` and its form for a single agent share: questions, tables, keys and passages.

A table of facts says to which entity every relation leads from every entity. Each question has a table of its own,
drawn from its own seed. Relations are filed under keys, and who says a key is shown a passage.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from ....seeding import generator
from ....types import TaskItem
from ...tasks import TaskSource

COUNTS = {"train": 2048, "test": 256}
_FILLER = 8  # different words that say nothing
_QUESTION = re.compile(r"Q e(\d+) r(\d+) r(\d+)", re.ASCII)


class World(NamedTuple):
    """A question and the table that it is about."""

    facts: tuple[tuple[int, ...], ...]  # to which entity each relation leads from each entity [R][E]
    start: int  # the entity that the question begins with
    hops: tuple[int, int]  # the relations that lead from it to the answer, in their order

    @property
    def answer(self) -> int:
        """Where the hops lead."""
        first, second = self.hops
        return self.facts[second][self.facts[first][self.start]]


@functools.cache
def sample_tasks(relations: int, entities: int) -> tuple[TaskItem, ...]:
    """The embedded questions of this size; every one has a table of its own, so that no two splits share one."""
    return tuple(_draw(relations, entities, split, number) for split, n in COUNTS.items() for number in range(n))


def _draw(relations: int, entities: int, split: str, number: int) -> TaskItem:
    random = generator(0, "keys", relations, entities, split, number)
    facts: list[list[int]] = random.integers(entities, size=(relations, entities)).tolist()
    start, first, second = (int(random.integers(size)) for size in (entities, relations, relations))
    table = "\n".join(" ".join(map(str, row)) for row in facts)
    return TaskItem(f"{split}-{number}", f"Q e{start} r{first} r{second}", split, fields={"facts": table})


@functools.lru_cache(maxsize=4096)
def read_world(prompt: str, facts: str) -> World:
    """The world of a row.

    Raises:
        ValueError: The message names the field, and says what it should be.
    """
    asked = _QUESTION.fullmatch(prompt)
    if asked is None:
        raise ValueError(f"field 'prompt': is {prompt[:60]!r}; write a question as 'Q e3 r2 r1'")
    rows = [line.split() for line in facts.strip().splitlines()]
    entities = len(rows[0]) if rows else 0
    for row, words in enumerate(rows):
        wrong = next((w for w in words if not (w.isascii() and w.isdigit() and int(w) < entities)), None)
        if wrong is not None or len(words) != entities:
            what = f"holds {wrong!r:.40}" if wrong is not None else f"has {len(words)} numbers"
            raise ValueError(
                f"field 'facts': line {row + 1} {what}; give one line per relation with {entities} numbers from 0 to "
                f"{entities - 1}: the entities that it leads to from e0, e1, ..."
            )
    start, first, second = map(int, asked.groups())
    if start >= entities or max(first, second) >= len(rows):
        raise ValueError(
            f"field 'prompt': {prompt!r} asks about what is not in 'facts', which has {len(rows)} relations and "
            f"{entities} entities, counted from 0"
        )
    return World(tuple(tuple(map(int, words)) for words in rows), start, (first, second))


@dataclass(frozen=True)
class Lookup:
    """The size of the questions and of what is seen of them.

    Attributes:
        relations: R, at least 2.
        entities: E, at least 2.
        delegations: D, how often something may be looked up, at least 1.
        context: How many words of its history the agent with the question sees; 0: all.
        filler: Meaningless words in a passage.
    """

    relations: int
    entities: int
    delegations: int
    context: int
    filler: int

    def __post_init__(self) -> None:
        """Refuse impossible options."""
        least = {"relations": 2, "entities": 2, "delegations": 1, "context": 0, "filler": 0}
        for option in fields(self):
            value: Any = getattr(self, option.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least[option.name]:
                raise ValueError(f"{option.name} is {value!r}; it must be an integer of at least {least[option.name]}")

    @property
    def source(self) -> TaskSource:
        """Where rows of this size come from."""
        sample = functools.partial(sample_tasks, self.relations, self.entities)
        return TaskSource("keys", required=("prompt", "facts"), sample=sample)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that agents are told or have to say."""
        numbered = {"e": self.entities, "r": self.relations, "k": self.relations, "f": _FILLER}
        words = [f"{letter}{number}" for letter, count in numbered.items() for number in range(count)]
        return ("Q", "S", "R", "P", "ANS", "none", *words)

    def problem(self, item: TaskItem) -> str:
        """A question or a table that cannot be read, or one of another size; "" where there is none."""
        try:
            facts = world(item).facts
        except ValueError as error:
            return str(error)
        size = len(facts), len(facts[0])
        if size != (self.relations, self.entities):
            return (
                f"field 'facts': has {size[0]} relations and {size[1]} entities; set relations={size[0]} and "
                f"entities={size[1]}, or give rows of {self.relations} and {self.entities}"
            )
        return ""

    def key_of(self, relation: int) -> int:
        """sigma: the key that a relation is filed under."""
        return (relation + 1) % self.relations

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

    def keys(self) -> tuple[str, ...]:
        """All keys."""
        return tuple(f"k{number}" for number in range(self.relations))


def world(item: TaskItem) -> World:
    """The question and its table."""
    return read_world(item.prompt, item.fields["facts"])


def number_of(text: str, letter: str, count: int) -> int | None:
    """The number j of a text that is `letter` and j, below `count`; None for any other text."""
    names: dict[Any, int] = {f"{letter}{number}": number for number in range(count)}
    return names.get(text)


def check_history(words: Sequence[str], first: str, name: str) -> None:
    """Refuse a history that was cut by the context or belongs to another task, with a ValueError."""
    if words[:1] != [first]:
        raise ValueError(
            f"the optimal team of {name} needs a history that begins with {first!r}, but this one begins "
            f"{' '.join(words)[:40]!r}; give it the whole history (context=0, or at least 10)"
        )
