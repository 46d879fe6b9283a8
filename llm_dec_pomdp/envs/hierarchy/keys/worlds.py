"""Tables of facts and two-hop questions about them, each drawn from its own seed."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from ....seeding import generator
from ....types import TaskItem

COUNTS = {"train": 2048, "test": 256}
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
