"""Requests for calls-v0: the words of a user, the contents of the applications, and the calls of the solution.

A user turn looks up a value in an application and uses it in others. It takes 2 calls, or 3 if the value is used twice
or an order returns another value that is used. A later turn may use the first value again, with 1 call. A row has 1 to
3 user turns and 2 to 6 calls.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import TaskItem

from .applications import AppState, Asked, asked, run, states_of

TRAIN, TEST = 200, 100
PEOPLE = tuple("Ada Ben Cora Dan Eva Finn Gwen Hugo Ida Jon Kim Leo".split())
ITEMS = tuple("lamp chair kettle rug clock mirror shelf vase".split())
TITLES = tuple("trip party exam concert dinner visit".split())
FILES = tuple("budget wishes travel ideas".split())  # files to read
PAPERS = tuple("plan notes list report summary draft".split())  # files to write
DAYS, AMOUNTS, COUNTS = range(1, 29), range(20, 100), range(2, 5)
SHAPES = ((2,), (3,), (2, 1), (2, 2), (3, 1), (2, 3), (3, 3), (2, 1, 2), (2, 2, 2), (3, 1, 2))  # calls by user turn


class UserTurn(NamedTuple):
    """A message of the user, and the calls that fulfil it."""

    words: str
    calls: tuple[Asked, ...]


@functools.lru_cache(maxsize=4096)
def turns_of(text: str) -> tuple[UserTurn, ...]:
    """Parse the field `turns`: each line is a JSON object with `words` and `calls`.

    Raises:
        ValueError, KeyError, TypeError: A line has another form.
    """
    lines = [json.loads(line) for line in text.splitlines() if not line.startswith("#")]
    return tuple(
        UserTurn(line["words"], tuple(asked(t, **arguments) for t, arguments in line["calls"])) for line in lines
    )


@functools.lru_cache(maxsize=4096)
def world_of(text: str) -> Mapping[str, AppState]:
    """Parse the field `world`, a line of JSON, and return the states of the applications.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: The line has another form.
    """
    return states_of(json.loads(text.splitlines()[0]))


@functools.cache
def embedded() -> tuple[TaskItem, ...]:
    """Return all embedded rows."""
    rows: list[TaskItem] = []
    prompts: set[str] = set()
    number = 0
    while len(rows) < TRAIN + TEST:
        number += 1
        split = "train" if len(rows) < TRAIN else "test"
        item = _row(f"calls/{len(rows)}", split, SHAPES[len(rows) % len(SHAPES)], generator(0, "calls", number))
        if item is not None and item.prompt not in prompts:
            prompts.add(item.prompt)
            rows.append(item)
    return tuple(rows)


def _row(name: str, split: str, shape: Sequence[int], draw: np.random.Generator) -> TaskItem | None:
    """Sample a row; return None if a call fails, changes nothing after the look-up, or occurs twice."""
    world = _world(draw)
    states = states_of(world)
    turns: list[UserTurn] = []
    kept = ("", "")  # kind and value of the first turn
    for calls in shape:
        words, steps = _request(calls, kept, states, draw)
        for call in steps:
            before = states
            try:
                states, _ = run(states, call)
            except ValueError:
                return None
            if states == before and call is not steps[0]:
                return None
        if not turns:
            kept = _kept(steps[0], states_of(world))
        turns.append(UserTurn(words, tuple(steps)))
    every = [call for turn in turns for call in turn.calls]
    if len(set(every)) < len(every):
        return None
    lines = [{"words": t.words, "calls": [[c.tool, dict(c.arguments)] for c in t.calls]} for t in turns]
    fields = {"turns": "\n".join(map(json.dumps, lines)), "world": json.dumps(world)}
    return TaskItem(name, turns[0].words, split, fields=fields)


def _world(draw: np.random.Generator) -> dict[str, list[list[Any]]]:
    """Sample the values that can be looked up in each application."""

    def some(values: Sequence[Any], count: int) -> list[Any]:
        return [values[i] for i in draw.permutation(len(values))[:count].tolist()]

    def content(kind: str) -> str:
        values = {"day": some(DAYS, 1), "amount": some(AMOUNTS, 1), "item": some(items, 1), "person": some(people, 1)}
        return f"{kind} {values[kind][0]}"

    people, items = some(PEOPLE, 5), some(ITEMS, 4)
    kinds = some(("day", "amount", "item", "person"), 4)
    return {
        "calendar": [[person, day] for person, day in zip(people, some(DAYS, 5), strict=True)],
        "bank": [[person, amount] for person, amount in zip(people, some(AMOUNTS, 5), strict=True)],
        "mail": [[person, content(kind)] for person, kind in zip(people, [*kinds, kinds[0]], strict=True)],
        "shop": [[item, cost] for item, cost in zip(items, some(AMOUNTS, 4), strict=True)],
        "files": [[name, content(kind)] for name, kind in zip(FILES, some(kinds, 4), strict=True)],
    }


class Source(NamedTuple):
    """A value that can be looked up."""

    call: Asked
    kind: str
    words: str


def sources(states: Mapping[str, AppState]) -> Iterator[Source]:
    """Yield all values that can be looked up."""
    for person, _ in states["calendar"][0]:
        yield Source(asked("find_event", person=person), "day", f"the day of my event with {person}")
    for person, _ in states["bank"][0]:
        yield Source(asked("last_payment", person=person), "amount", f"the amount that {person} paid last")
    for person, text in states["mail"][0]:
        kind = text.split()[0]
        yield Source(asked("read_mail", sender=person), kind, f"the {kind} in the mail of {person}")
    for item, _ in states["shop"][0]:
        yield Source(asked("price", item=item), "amount", f"the price of a {item}")
    for name, text in states["files"][0]:
        kind = text.split()[0]
        yield Source(asked("read_file", name=name), kind, f"the {kind} in the file {name}")


def _uses(kind: str, value: str, draw: np.random.Generator) -> list[tuple[str, Asked]]:
    """Return uses of a value, each as the words of the user, with {} in place of the value, and the call."""
    person, title, paper = (names[int(draw.integers(len(names)))] for names in (PEOPLE, TITLES, PAPERS))
    count, amount = int(draw.choice(COUNTS)), int(draw.choice(AMOUNTS))
    written = [
        (f"send {{}} to {person}", asked("send_mail", to=person, text=value)),
        (f"write {{}} into the file {paper}", asked("write_file", name=paper, text=value)),
    ]
    if kind == "day":
        added = (f"put {title} into my calendar on {{}}", asked("add_event", title=title, day=int(value)))
        moved = (f"move my event with {person} to {{}}", asked("move_event", person=person, day=int(value)))
        return [*written, added, added, moved]
    if kind == "amount":
        paid = (f"pay {{}} to {person}", asked("pay", person=person, amount=int(value)))
        return [*written, paid, paid]
    if kind == "item":
        return [(f"order {count} of {{}}", asked("order", item=value, count=count))]
    return [(f"pay {amount} to {{}}", asked("pay", person=value, amount=amount))]


def _request(
    calls: int, kept: tuple[str, str], states: Mapping[str, AppState], draw: np.random.Generator
) -> tuple[str, list[Asked]]:
    """Sample the words and the calls of a user turn."""
    if calls == 1:
        kind, value = kept
        words, call = _chosen(_uses(kind, value, draw), draw)
        return f"Also {words.format(f'the same {kind}')}.", [call]
    source = _chosen(list(sources(states)), draw)
    _, answer = run(states, source.call)
    value = answer.split()[-1]
    elsewhere = [use for use in _uses(source.kind, value, draw) if use[1].application != source.call.application]
    words, call = _chosen(elsewhere, draw)
    steps, text = [source.call, call], words.format(source.words)
    if calls == 3:
        kind, again = source.kind, f"that {source.kind}"
        if call.tool == "order":
            kind, again = "amount", "what it costs"
            value = run(states, call)[1].split()[-1]
        others = [use for use in _uses(kind, value, draw) if use[1].application != call.application]
        words, call = _chosen(others, draw) if others else ("", call)
        steps, text = [*steps, call], f"{text}, and {words.format(again)}"
    return f"{text[:1].upper()}{text[1:]}.", steps


def _chosen(values: Sequence[Any], draw: np.random.Generator) -> Any:
    return values[int(draw.integers(len(values)))]


def _kept(call: Asked, before: Mapping[str, AppState]) -> tuple[str, str]:
    """Return kind and value of the result of a look-up."""
    kind = next(source.kind for source in sources(before) if source.call == call)
    return kind, run(before, call)[1].split()[-1]
