"""Questions, tables, keys and passages of `keys-v0`, for the hierarchy and for the single agent.

A table of facts gives, for each relation and entity, the entity that the relation leads to. Each question has its own
table, sampled from its own seed. Relations are filed under keys, and an agent that names a key observes a passage.
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
_FILLER = 8  # different meaningless words
_QUESTION = re.compile(r"Q e(\d+) r(\d+) r(\d+)", re.ASCII)


class World(NamedTuple):
    """A question and its table of facts."""

    facts: tuple[tuple[int, ...], ...]  # [R][E], the entity that a relation leads to from an entity
    start: int  # the first entity of the question
    hops: tuple[int, int]  # the relations that lead from it to the answer, in order

    @property
    def answer(self) -> int:
        """Return the entity that the hops lead to."""
        first, second = self.hops
        return self.facts[second][self.facts[first][self.start]]


@functools.cache
def sample_tasks(relations: int, entities: int) -> tuple[TaskItem, ...]:
    """Return the embedded questions of this size; each has its own table, so that splits share none."""
    return tuple(_draw(relations, entities, split, number) for split, n in COUNTS.items() for number in range(n))


def _draw(relations: int, entities: int, split: str, number: int) -> TaskItem:
    random = generator(0, "keys", relations, entities, split, number)
    facts: list[list[int]] = random.integers(entities, size=(relations, entities)).tolist()
    start, first, second = (int(random.integers(size)) for size in (entities, relations, relations))
    table = "\n".join(" ".join(map(str, row)) for row in facts)
    return TaskItem(f"{split}-{number}", f"Q e{start} r{first} r{second}", split, fields={"facts": table})


@functools.lru_cache(maxsize=4096)
def read_world(prompt: str, facts: str) -> World:
    """Return the question and the table of a row.

    Raises:
        ValueError: A field is malformed; the message names the field and the expected form.
    """
    asked = _QUESTION.fullmatch(prompt)
    if asked is None:
        raise ValueError(f"field 'prompt': is {prompt[:60]!r}; write a question such as 'Q e3 r2 r1'")
    rows = [line.split() for line in facts.strip().splitlines()]
    entities = len(rows[0]) if rows else 0
    for row, words in enumerate(rows):
        wrong = next((w for w in words if not (w.isascii() and w.isdigit() and int(w) < entities)), None)
        if wrong is not None or len(words) != entities:
            what = f"has {wrong!r:.40}" if wrong is not None else f"has {len(words)} numbers"
            raise ValueError(
                f"field 'facts': line {row + 1} {what}; give one line per relation with {entities} numbers from "
                f"0 to {entities - 1}: the entities that the relation leads to from e0, e1, ..."
            )
    start, first, second = map(int, asked.groups())
    if start >= entities or max(first, second) >= len(rows):
        raise ValueError(
            f"field 'prompt': {prompt!r} names a relation or an entity outside of 'facts'; use relations below "
            f"r{len(rows)} and entities below e{entities}"
        )
    return World(tuple(tuple(map(int, words)) for words in rows), start, (first, second))


@dataclass(frozen=True)
class Lookup:
    """Sizes of questions, passages and histories.

    Attributes:
        relations: R, at least 2.
        entities: E, at least 2.
        delegations: D, the number of lookups in an episode, at least 1.
        context: Number of words of its history that the agent with the question observes; 0 for all.
        filler: Number of meaningless words in a passage.
    """

    relations: int
    entities: int
    delegations: int
    context: int
    filler: int

    def __post_init__(self) -> None:
        """Raise ValueError if an option is out of range."""
        least = {"relations": 2, "entities": 2, "delegations": 1, "context": 0, "filler": 0}
        for option in fields(self):
            value: Any = getattr(self, option.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least[option.name]:
                raise ValueError(f"{option.name} is {value!r}; give an integer of at least {least[option.name]}")

    @property
    def source(self) -> TaskSource:
        """Return the source of rows of this size."""
        sample = functools.partial(sample_tasks, self.relations, self.entities)
        return TaskSource("keys", required=("prompt", "facts"), sample=sample)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Return all words of observations and actions."""
        numbered = {"e": self.entities, "r": self.relations, "k": self.relations, "f": _FILLER}
        words = [f"{letter}{number}" for letter, count in numbered.items() for number in range(count)]
        return ("Q", "S", "R", "P", "ANS", "none", *words)

    def problem(self, item: TaskItem) -> str:
        """Return why a row cannot be used: its question or table is malformed, or has another size; else ""."""
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
        """Return the key that a relation is filed under."""
        return (relation + 1) % self.relations

    def filed_under(self, key: int) -> int:
        """Return the relation that is filed under a key; the inverse of `key_of`."""
        return (key - 1) % self.relations

    def passage(self, entity: int, random: np.random.Generator) -> str:
        """Return the text under a key: an entity among meaningless words, at a random position."""
        words = [f"f{number}" for number in random.integers(_FILLER, size=self.filler)]
        words.insert(int(random.integers(self.filler + 1)), f"e{entity}")
        return " ".join(["P", *words])

    def seen(self, words: Sequence[str]) -> str:
        """Return the end of a history that fits into the context."""
        return " ".join(words[-self.context :])

    def keys(self) -> tuple[str, ...]:
        """Return all keys."""
        return tuple(f"k{number}" for number in range(self.relations))


def world(item: TaskItem) -> World:
    """Return the question and the table of a row."""
    return read_world(item.prompt, item.fields["facts"])


def number_of(text: str, letter: str, count: int) -> int | None:
    """Return the number j of a text that is `letter` followed by j < `count`; None for any other text."""
    names: dict[Any, int] = {f"{letter}{number}": number for number in range(count)}
    return names.get(text)


def check_history(words: Sequence[str], first: str, name: str) -> None:
    """Raise ValueError for a history that was cut by the context or belongs to another task."""
    if words[:1] != [first]:
        raise ValueError(
            f"script:optimal of {name} needs a history that begins with {first!r}, not with "
            f"{' '.join(words)[:40]!r}; set context to 0, or to at least 10"
        )
