"""Procedural worlds: who lives where, who founded what, and some 350 sentences that say so.

A world follows from its number alone. No two worlds share a name, so that facts learnt in one are of no use in another.
A few facts are contradicted by a rumour, which says that it is one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ....seeding import derive, uniforms
from .corpus import Passage
from .relations import FILLERS, KINDS, RELATIONS, RUMOURS, Relation

T = TypeVar("T")

COUNTS = {"people": 30, "towns": 12, "companies": 20, "works": 26}
_SURNAMES, _RIVERS = 24, 8
_EACH = _SURNAMES + COUNTS["towns"] + _RIVERS  # names that a world takes from the stock
_FACTS_WITH_RUMOUR = 14
_SEED = 20_251_113
_DRAWS = 4096  # of a world, more than any takes
_FIRST_NAMES = (
    "Ada Bruno Clara David Edda Felix Greta Hugo Ida Jonas Karla Leo Mina Nils Olga Paul Rosa Simon Tilda Viktor"
).split()
_TRADES = "Mills Foundry Press Bakery Shipyard Glassworks Brewery Books Printers Ropes".split()
_TITLES = ("The Bells of {}", "A Winter in {}", "Letters to {}", "The Ferryman of {}", "Roads from {}", "{} by Night")
_STARTS = "B Br D Dr F G Gr H K Kl L M N P R S St T Tr V W".split()
_MIDDLES = "a e i o u al el in or un ar".split()
_ENDS = "ben der fen kel len mar nor pel rick sten tor vik win zel".split()


class Fact(NamedTuple):
    """That a subject has a value."""

    relation: str  # its name
    subject: str  # an entity
    value: str  # an entity, a year or a river
    passages: tuple[int, ...]  # indices of the passages that state it


@dataclass(frozen=True)
class World:
    """A world."""

    number: int  # it follows from this
    names: Mapping[str, tuple[str, ...]]  # every name by kind, also of values that have no page
    facts: Mapping[tuple[str, str], Fact]  # by relation and subject
    passages: tuple[Passage, ...]  # its corpus, page by page

    @functools.cached_property
    def kind_of(self) -> Mapping[str, str]:
        """Kind by name."""
        return {name: kind for kind, names in self.names.items() for name in names}

    def named(self, text: str, kind: str | None = None) -> tuple[str, ...]:
        """The names of this world in a text, in order, each once; of a kind only, where one is given.

        Of names within names the longest counts.
        """
        names = dict.fromkeys(match.group() for match in self._names.finditer(text))
        return tuple(name for name in names if kind is None or self.kind_of[name] == kind)

    @functools.cached_property
    def _names(self) -> re.Pattern[str]:
        ordered = sorted(self.kind_of, key=len, reverse=True)
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, ordered))})\b")


class Draws:
    """A sequence of draws that follows from a seed, the same on every platform."""

    def __init__(self, seed: int) -> None:
        self._numbers: Iterator[float] = iter(uniforms(seed, _DRAWS).tolist())

    def below(self, count: int) -> int:
        """An integer in [0, count)."""
        return int(next(self._numbers) * count)

    def one(self, things: Sequence[T]) -> T:
        """One of them."""
        return things[self.below(len(things))]

    def shuffled(self, things: Sequence[T]) -> list[T]:
        """All of them in another order."""
        mixed = list(things)
        for place in range(len(mixed) - 1, 0, -1):
            other = self.below(place + 1)
            mixed[place], mixed[other] = mixed[other], mixed[place]
        return mixed


@functools.cache
def _stock() -> tuple[str, ...]:
    """All made-up names, mixed."""
    every = [start + middle + end for start in _STARTS for middle in _MIDDLES for end in _ENDS]
    return tuple(Draws(derive(_SEED, "names")).shuffled(every))


def most_worlds() -> int:
    """How many worlds there are names for."""
    return len(_stock()) // _EACH


@functools.cache
def world(number: int) -> World:
    """The world of a number, from 0 to `most_worlds() - 1`."""
    draws = Draws(derive(_SEED, "world", number))
    names = _names(number, draws)
    values = {
        (relation.name, subject): value
        for relation in RELATIONS.values()
        for subject, value in zip(names[relation.subject], _values(relation, names, draws), strict=True)
    }
    doubted = set(draws.shuffled(list(values))[:_FACTS_WITH_RUMOUR])
    passages: list[Passage] = []
    said: dict[tuple[str, str], int] = {}
    for kind in KINDS:
        for name in names[kind]:
            page: list[tuple[str, tuple[str, str] | None]] = [
                (sentence, key)
                for key, value in values.items()
                if key[1] == name
                for sentence in _sentences(key, value, names, draws, doubted=key in doubted)
            ]
            if draws.below(4) == 0:
                page.append((draws.one(FILLERS[kind]).format(x=name), None))
            for sentence, key in draws.shuffled(page):
                if key is not None and not sentence.startswith(RUMOURS):
                    said[key] = len(passages)
                passages.append(Passage(sentence, name, kind))
    facts = {key: Fact(*key, value, (said[key],)) for key, value in values.items()}
    return World(number, names, facts, tuple(passages))


def _names(number: int, draws: Draws) -> dict[str, tuple[str, ...]]:
    """The names of a world. Families share a surname; companies and works are named after people and towns."""
    own = _stock()[number * _EACH : (number + 1) * _EACH]
    surnames, towns, rivers = own[:_SURNAMES], own[_SURNAMES:-_RIVERS], own[-_RIVERS:]
    firsts = draws.shuffled(_FIRST_NAMES)
    people = [f"{firsts[i % len(firsts)]} {surnames[i % len(surnames)]}" for i in range(COUNTS["people"])]
    bases = draws.shuffled([*surnames, *towns])
    companies = [f"{bases[i % len(bases)]} {draws.one(_TRADES)}" for i in range(COUNTS["companies"])]
    places = draws.shuffled([(title, town) for title in _TITLES for town in towns])
    works = [title.format(town) for title, town in places[: COUNTS["works"]]]
    years = draws.shuffled(range(1801, 1990))[: COUNTS["companies"]]
    return {
        "people": tuple(people),
        "towns": tuple(towns),
        "companies": tuple(companies),
        "works": tuple(works),
        "years": tuple(map(str, years)),
        "rivers": tuple(rivers),
    }


def _values(relation: Relation, names: Mapping[str, tuple[str, ...]], draws: Draws) -> Iterable[str]:
    """The value of every subject of a relation. Nobody teaches two people, and all companies differ in age."""
    if relation.value == "years":
        return names["years"]
    if relation.value == relation.subject:
        ring = draws.shuffled(names[relation.value])
        following = dict(zip(ring, [*ring[1:], ring[0]], strict=True))
        return [following[subject] for subject in names[relation.subject]]
    return [draws.one(names[relation.value]) for _ in names[relation.subject]]


def _sentences(
    key: tuple[str, str], value: str, names: Mapping[str, tuple[str, ...]], draws: Draws, *, doubted: bool
) -> list[str]:
    """The sentence that states a fact, and the rumour that contradicts it where it is doubted."""
    relation = RELATIONS[key[0]]
    first, second = draws.shuffled(relation.sentences)[:2]
    said = [first.format(x=key[1], y=value)]
    if doubted:
        other = draws.one([name for name in names[relation.value] if name not in (value, key[1])])
        said.append(draws.one(RUMOURS) + second.format(x=key[1], y=other))
    return said
