"""Procedural worlds: who lives where, who founded what. Texts say one half of it, tables the other.

A world follows from its number alone. No two worlds share a name, so that facts learnt in one are of no use in another.
About people there are sentences (some 250), and a few of them are contradicted by a rumour, which says that it is one.
What can be counted and compared stands in three tables of a database. Every subject of a relation has one value, so
that a chain of relations has one right answer.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from llm_dec_pomdp.seeding import derive, uniforms

KINDS = ("people", "towns", "companies", "works")  # of entities that have a page or a row
SKILLS = ("reader", "analyst", "calculator")  # who finds what texts say, what tables say, and what follows from numbers

RUMOURS = (
    "An unsigned letter claims: ",
    "According to gossip at the market: ",
    "A rumour has it: ",
)


@dataclass(frozen=True)
class Relation:
    """A relation from a subject to its value. Sums and differences are relations of two numbers."""

    name: str  # in the tasks
    subject: str  # kind of the subject
    value: str  # kind of the value
    words: frozenset[str]  # words by which a text may ask for it
    question: str  # about the subject {x}, or the two numbers {x} and {y}
    noun: str  # the value as a part of a longer question
    sentences: tuple[str, ...] = ()  # statements with the subject {x} and the value {y}; () where texts do not say it
    table: str = ""  # whose column says it; "" where tables do not
    column: str = ""
    counts: bool = False  # the value is the number of rows that have the subject in the column
    program: str = ""  # Python that computes it; "" where it is no calculation
    compared: tuple[str, str] = ("", "")  # "most" or "least", and a question that compares two subjects
    computed: tuple[str, str] = ("", "")  # name of a calculation, and a question that asks for it about two subjects

    @property
    def skill(self) -> str:
        """Who can find the value."""
        return SKILLS[0] if self.sentences else SKILLS[1] if self.table else SKILLS[2]

    @property
    def place(self) -> tuple[str, str]:
        """Table and column."""
        return self.table, self.column

    def select(self, subject: str) -> str:
        """The statement of SQL that finds the value."""
        if self.counts:
            return f"SELECT count(*) FROM {self.table} WHERE {self.column} = '{subject}'"
        return f"SELECT {self.column} FROM {self.table} WHERE name = '{subject}'"

    def falsify(self, subject: str) -> str:
        """A statement of SQL after which the value is another one."""
        if not self.counts:
            return f"UPDATE {self.table} SET {self.column} = NULL WHERE name = '{subject}'"
        row = f"SELECT min(rowid) FROM {self.table} WHERE {self.column} <> '{subject}'"
        return f"UPDATE {self.table} SET {self.column} = '{subject}' WHERE rowid = ({row})"


def _relations(blocks: str) -> Iterator[Relation]:
    for block in blocks.strip().split("\n\n"):
        (name, subject, value, words), (question, noun), source, *more = (row.split(" | ") for row in block.split("\n"))
        first, _, counted = source[0].rpartition(" ")
        says: dict[str, Any] = {"sentences": tuple(source)}
        if subject == "numbers":
            says = {"program": source[0]}
        elif re.fullmatch(r"(count )?\w+\.\w+", source[0]):
            table, column = counted.split(".")
            says = {"table": table, "column": column, "counts": bool(first)}
        for compare, compared, compute, computed in more:
            says |= {"compared": (compare, compared), "computed": (compute, computed)}
        yield Relation(name, subject, value, frozenset(words.split()), question, noun, **says)


# Lines: name, kinds of subject and value, words; question and noun; the sentences, the column or the program; for
# numbers also a question that compares and one that computes.
_RELATIONS = """
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

director | companies | people | directs director directed head leads leader
Who directs {x}? | the person who directs {x}
{y} directs {x}. | It is {y} that directs {x}. | The person who directs {x} is called {y}.

author | works | people | wrote author written writer
Who wrote {x}? | the author of {x}
{y} wrote {x}. | {y} wrote {x} in a year. | It was {y} that wrote {x}.

publisher | works | companies | published publisher publishes
Which company published {x}? | the company that published {x}
{y} published {x}. | It was {y} that published {x}. | {x} was published by {y}.

mayor | towns | people | mayor
Who is the mayor of {x}? | the mayor of {x}
The mayor of {x} is {y}. | {y} is the mayor of {x}. | In {x} the mayor is called {y}.

seat | companies | towns | based seat headquarters office
In which town is {x} based? | the town in which {x} is based
companies.seat

setting | works | towns | set setting plays takes
In which town is {x} set? | the town in which {x} is set
works.setting

river | towns | rivers | river flows water
Which river flows by {x}? | the river that flows by {x}
towns.river

opened | companies | numbers | year opened opening earlier older when
In which year was {x} opened? | the year in which {x} was opened
companies.opened
least | Which was opened earlier, {x} or {y}? | difference | How many years lie between the openings of {x} and {y}?

staff | companies | numbers | employees staff
How many employees has {x}? | the number of employees of {x}
companies.employees
most | Which has more employees, {x} or {y}? | sum | How many employees do {x} and {y} have together?

pages | works | numbers | pages long
How many pages has {x}? | the number of pages of {x}
works.pages
most | Which has more pages, {x} or {y}? | difference | By how many pages do {x} and {y} differ?

population | towns | numbers | inhabitants population
How many inhabitants has {x}? | the number of inhabitants of {x}
towns.inhabitants
most | Which has more inhabitants, {x} or {y}? | sum | How many inhabitants do {x} and {y} have together?

companies_in | towns | numbers | companies firms
How many companies are based in {x}? | the number of companies in {x}
count companies.seat
most | Which has more companies, {x} or {y}? | sum | How many companies do {x} and {y} have together?

works_in | towns | numbers | stories works
How many works are set in {x}? | the number of works that are set in {x}
count works.setting
most | In which are more works set, {x} or {y}? | sum | How many works are set in {x} and {y} together?

towns_on | rivers | numbers | towns
How many towns lie on {x}? | the number of towns on {x}
count towns.river
most | On which lie more towns, {x} or {y}? | sum | How many towns lie on {x} and {y} together?

sum | numbers | numbers | sum total plus
What is the sum of {x} and {y}? | the sum of {x} and {y}
{x} + {y}

difference | numbers | numbers | difference minus
What is the difference of {x} and {y}? | the difference of {x} and {y}
abs({x} - {y})
"""
RELATIONS = {relation.name: relation for relation in _relations(_RELATIONS)}

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
    """The relations of subjects of a kind, without calculations."""
    return (relation for relation in RELATIONS.values() if relation.subject == kind and not relation.program)


# --- worlds -----------------------------------------------------------------------------------------------------------

T = TypeVar("T")

COUNTS = {"people": 30, "towns": 12, "companies": 20, "works": 26}
_SURNAMES, _RIVERS = 24, 8
_EACH = _SURNAMES + COUNTS["towns"] + _RIVERS  # names that a world takes from the stock
_FACTS_WITH_RUMOUR = 14
_SEED = 20_251_113
_DRAWS = 1 << 15  # more than a world or its questions take
_FIRST_NAMES = (
    "Ada Bruno Clara David Edda Felix Greta Hugo Ida Jonas Karla Leo Mina Nils Olga Paul Rosa Simon Tilda Viktor"
).split()
_TRADES = "Mills Foundry Press Bakery Shipyard Glassworks Brewery Books Printers Ropes".split()
_TITLES = ("The Bells of {}", "A Winter in {}", "Letters to {}", "The Ferryman of {}", "Roads from {}", "{} by Night")
_STARTS = "B Br D Dr F G Gr H K Kl L M N P R S St T Tr V W".split()
_MIDDLES = "a e i o u al el in or un ar".split()
_ENDS = "ben der fen kel len mar nor pel rick sten tor vik win zel".split()


_RANGES = {"opened": (1801, 1989), "staff": (5, 900), "pages": (60, 900), "population": (1000, 90_000)}


class Fact(NamedTuple):
    """That a subject has a value."""

    relation: str  # its name
    subjects: tuple[str, ...]  # an entity, or two numbers
    value: str  # an entity, a river or a number
    sentence: str = ""  # that states it; "" where texts do not


@dataclass(frozen=True)
class World:
    """A world."""

    number: int  # it follows from this
    names: Mapping[str, tuple[str, ...]]  # every name by kind
    facts: Mapping[tuple[str, str], Fact]  # by relation and subject
    texts: tuple[str, ...]  # sentences, page by page
    script: str  # SQL that makes the tables

    @functools.cached_property
    def kind_of(self) -> Mapping[str, str]:
        """Kind by name."""
        return {name: kind for kind, names in self.names.items() for name in names}

    def fact(self, relation: str, subjects: tuple[str, ...]) -> Fact:
        """What is true; KeyError where the relation has no such subjects."""
        if not RELATIONS[relation].program:
            return self.facts[relation, subjects[0]]
        x, y = map(int, subjects)
        return Fact(relation, subjects, str(x + y if relation == "sum" else abs(x - y)))

    def named(self, text: str, kind: str | None = None) -> tuple[str, ...]:
        """The names of this world in a text, in order, each once; of a kind only, where one is given.

        Of names within names the longest counts. The kind "numbers" has those without a sign.
        """
        if kind == "numbers":
            return tuple(dict.fromkeys(re.findall(r"(?<![\w.])\d{1,12}\b", text.replace(",", ""))))
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
        if not (relation.counts or relation.program)
        for subject, value in zip(names[relation.subject], _values(relation, names, draws), strict=True)
    }
    for r in (relation for relation in RELATIONS.values() if relation.counts):
        found = [value for (name, _), value in values.items() if RELATIONS[name].place == r.place]
        values |= {(r.name, subject): str(found.count(subject)) for subject in names[r.subject]}
    return World(number, names, *_facts_and_texts(values, names, draws), _script(values, names))


def _facts_and_texts(
    values: Mapping[tuple[str, str], str], names: Mapping[str, Sequence[str]], draws: Draws
) -> tuple[Mapping[tuple[str, str], Fact], tuple[str, ...]]:
    """All facts, and the texts that state what is not in tables, with rumours and sentences that say nothing."""
    facts = {(name, subject): Fact(name, (subject,), value) for (name, subject), value in values.items()}
    spoken = [key for key in values if RELATIONS[key[0]].sentences]
    doubted = set(draws.shuffled(spoken)[:_FACTS_WITH_RUMOUR])
    texts: list[str] = []
    for kind in KINDS:
        for name in names[kind]:
            page: list[str] = []
            for key in (key for key in spoken if key[1] == name):
                sentence, *rumours = _sentences(key, values[key], names, draws, doubted=key in doubted)
                facts[key] = facts[key]._replace(sentence=sentence)
                page += [sentence, *rumours]
            if draws.below(4) == 0:
                page.append(draws.pick(FILLERS[kind]).format(x=name))
            texts += draws.shuffled(page)
    return facts, tuple(texts)


def _script(values: Mapping[tuple[str, str], str], names: Mapping[str, Sequence[str]]) -> str:
    """SQL that makes a table of each kind that has columns."""
    statements: list[str] = []
    for kind in KINDS:
        columns = [r for r in RELATIONS.values() if r.subject == kind and r.table and not r.counts]
        if columns:
            typed = [f"{r.column} {'INTEGER' if r.value == 'numbers' else 'TEXT'}" for r in columns]
            statements.append(f"CREATE TABLE {kind} ({', '.join(['name TEXT', *typed])});")
            rows = [(name, *(values[r.name, name] for r in columns)) for name in names[kind]]
            quoted = [f"({', '.join(v if v.isdigit() else repr(v) for v in row)})" for row in rows]
            statements.append(f"INSERT INTO {kind} VALUES {', '.join(quoted)};")
    return "\n".join(statements)


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
    named = {"people": people, "towns": towns, "companies": companies, "works": works, "rivers": rivers}
    return {kind: tuple(names) for kind, names in named.items()}


def _values(relation: Relation, names: Mapping[str, tuple[str, ...]], draws: Draws) -> Iterable[str]:
    """The value of every subject of a relation. Nobody teaches two people, and no two numbers are the same."""
    if relation.value == "numbers":
        low, high = _RANGES[relation.name]
        numbers: dict[int, None] = {}
        while len(numbers) < len(names[relation.subject]):
            numbers[low + draws.below(high - low + 1)] = None
        return map(str, numbers)
    if relation.value == relation.subject:
        ring = draws.shuffled(names[relation.value])
        following = dict(zip(ring, [*ring[1:], ring[0]], strict=True))
        return [following[subject] for subject in names[relation.subject]]
    return [draws.pick(names[relation.value]) for _ in names[relation.subject]]


def _sentences(
    key: tuple[str, str], value: str, names: Mapping[str, Sequence[str]], draws: Draws, *, doubted: bool
) -> list[str]:
    """The sentence that states a fact, and the rumour that contradicts it where it is doubted."""
    relation = RELATIONS[key[0]]
    first, second = draws.shuffled(relation.sentences)[:2]
    sentences = [first.format(x=key[1], y=value)]
    if doubted:
        other = draws.pick([name for name in names[relation.value] if name not in (value, key[1])])
        sentences.append(draws.pick(RUMOURS) + second.format(x=key[1], y=other))
    return sentences
