"""Procedural worlds: who lives where, who founded what, and some 350 sentences that say so.

A world follows from its number alone. No two worlds share a name, so that facts learnt in one are of no use in another.
A few facts are contradicted by a rumour, which says that it is one. Every subject of a relation has one value, so that
a chain of relations has one right answer.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ....seeding import derive, uniforms
from .corpus import Passage

KINDS = ("people", "towns", "companies", "works")  # of entities; parts of a corpus are called so, too
VALUES = ("years", "rivers")  # kinds of values that have no page of their own

RUMOURS = (
    "An unsigned letter claims: ",
    "According to gossip at the market: ",
    "A rumour has it: ",
)


@dataclass(frozen=True)
class Relation:
    """A relation from a subject to its value."""

    name: str  # in the tasks
    subject: str  # kind of the subject
    value: str  # kind of the value
    sentences: tuple[str, ...]  # statements with the subject {x} and the value {y}
    question: str  # about the subject {x}
    noun: str  # the value as a part of a longer question
    words: frozenset[str]  # words by which a text may ask for it


def _relations(table: str) -> Iterator[Relation]:
    for block in table.strip().split("\n\n"):
        (name, subject, value, words), (question, noun), sentences = (row.split(" | ") for row in block.split("\n"))
        yield Relation(name, subject, value, tuple(sentences), question, noun, frozenset(words.split()))


# Three lines each: name, kinds of subject and value, words; question and noun; sentences.
_TABLE = """
birthplace | people | towns | born birth birthplace
In which town was {x} born? | the town in which {x} was born
{x} was born in {y}. | {x}, born in {y}, has two sisters. | Born in {y}, {x} soon left.

home | people | towns | home live lives living resides
In which town is the home of {x}? | the town in which {x} has a home
The home of {x} is in {y}. | {x} has a home in {y}. | {x} is at home in {y}.

employer | people | companies | employs employer employed works work job
Which company employs {x}? | the company that employs {x}
{y} employs {x}. | It is {y} that employs {x}. | {y} employs {x} and a cousin.

teacher | people | people | taught teacher teach teaches
Who taught {x}? | the teacher of {x}
{x} was taught by {y}. | {y} taught {x}. | It was {y} that taught {x}.

founder | companies | people | founder founded start started
Who founded {x}? | the founder of {x}
{x} was founded by {y}. | {x}, founded by {y}, grew. | It was {y} that founded {x}.

seat | companies | towns | based seat headquarters office
In which town is {x} based? | the town in which {x} is based
{x} is based in {y}. | Based in {y}, {x} has two offices. | {x} has long been based in {y}.

year | companies | years | year opened opening earlier older when
In which year was {x} opened? | the year in which {x} was opened
In {y} {x} was opened with a dance. | {x} was opened in {y}. | Opened in {y}, {x} began with two rooms.

director | companies | people | directs director directed head leads leader
Who directs {x}? | the person who directs {x}
{y} directs {x}. | It is {y} that directs {x}. | The person who directs {x} is called {y}.

author | works | people | wrote author written writer
Who wrote {x}? | the author of {x}
{y} wrote {x}. | {y} wrote {x} in a year. | It was {y} that wrote {x}.

setting | works | towns | set setting plays takes
In which town is {x} set? | the town in which {x} is set
{x} is set in {y}. | The story of {x} is set in {y}. | Readers know that {x} is set in {y}.

publisher | works | companies | published publisher publishes
Which company published {x}? | the company that published {x}
{y} published {x}. | It was {y} that published {x}. | {x} was published by {y}.

mayor | towns | people | mayor
Who is the mayor of {x}? | the mayor of {x}
The mayor of {x} is {y}. | {y} is the mayor of {x}. | In {x} the mayor is called {y}.

river | towns | rivers | river flows water
Which river flows by {x}? | the river that flows by {x}
The {y} flows by {x}. | By {x} flows the {y}. | {x} lies where the {y} flows.
"""
RELATIONS = {relation.name: relation for relation in _relations(_TABLE)}

# Sentences that answer no question, in the words of those that do.
FILLERS = {
    "people": (
        "{x} once wrote a letter about the weather.",
        "{x} is said to have founded nothing at all.",
        "{x} keeps bees and has a good memory.",
        "When {x} was a child, the winters were long.",
    ),
    "towns": (
        "{x} has a market on Thursdays.",
        "Nobody knows who founded {x}.",
        "Many people who live in {x} were born elsewhere.",
        "The mayor's office of {x} was painted last year.",
    ),
    "companies": (
        "{x} has published a calendar.",
        "Many who work at {x} live elsewhere.",
        "{x} pays its bills on time.",
    ),
    "works": (
        "Nobody has read {x} to the end.",
        "{x} was taught in schools for a while.",
        "A copy of {x} lies in every inn.",
    ),
}


def questions_about(kind: str) -> Iterable[Relation]:
    """The relations of subjects of a kind."""
    return (relation for relation in RELATIONS.values() if relation.subject == kind)


# --- worlds -----------------------------------------------------------------------------------------------------------

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

    def pick(self, things: Sequence[T]) -> T:
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
    stated: dict[tuple[str, str], int] = {}
    for kind in KINDS:
        for name in names[kind]:
            page: list[tuple[str, tuple[str, str] | None]] = [
                (sentence, key)
                for key, value in values.items()
                if key[1] == name
                for sentence in _sentences(key, value, names, draws, doubted=key in doubted)
            ]
            if draws.below(4) == 0:
                page.append((draws.pick(FILLERS[kind]).format(x=name), None))
            for sentence, key in draws.shuffled(page):
                if key is not None and not sentence.startswith(RUMOURS):
                    stated[key] = len(passages)
                passages.append(Passage(sentence, name, kind))
    facts = {key: Fact(*key, value, (stated[key],)) for key, value in values.items()}
    return World(number, names, facts, tuple(passages))


def _names(number: int, draws: Draws) -> dict[str, tuple[str, ...]]:
    """The names of a world. Families share a surname; companies and works are named after people and towns."""
    stock = _stock()[number * _EACH : (number + 1) * _EACH]
    surnames, towns, rivers = stock[:_SURNAMES], stock[_SURNAMES:-_RIVERS], stock[-_RIVERS:]
    firsts = draws.shuffled(_FIRST_NAMES)
    people = [f"{firsts[i % len(firsts)]} {surnames[i % len(surnames)]}" for i in range(COUNTS["people"])]
    bases = draws.shuffled([*surnames, *towns])
    companies = [f"{bases[i % len(bases)]} {draws.pick(_TRADES)}" for i in range(COUNTS["companies"])]
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
    return [draws.pick(names[relation.value]) for _ in names[relation.subject]]


def _sentences(
    key: tuple[str, str], value: str, names: Mapping[str, tuple[str, ...]], draws: Draws, *, doubted: bool
) -> list[str]:
    """The sentence that states a fact, and the rumour that contradicts it where it is doubted."""
    relation = RELATIONS[key[0]]
    first, second = draws.shuffled(relation.sentences)[:2]
    sentences = [first.format(x=key[1], y=value)]
    if doubted:
        other = draws.pick([name for name in names[relation.value] if name not in (value, key[1])])
        sentences.append(draws.pick(RUMOURS) + second.format(x=key[1], y=other))
    return sentences
