"""Procedural worlds of research-v0: facts about people, towns, companies and works.

Sentences (some 250 in each world) state the facts about people. A few of them are contradicted by a rumour, which is
marked as one. Three tables of a database hold the facts that can be counted and compared. Every subject of a relation
has one value, so a chain of relations has one right answer. No two worlds share a name, so facts learned in one world
are of no use in another.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

KINDS = ("people", "towns", "companies", "works")  # kinds of entities that have a page or a row
SKILLS = ("reader", "analyst", "calculator")  # skills that find facts in texts, in tables, and by calculation

RUMOURS = (
    "An unsigned letter claims: ",
    "According to gossip at the market: ",
    "A rumour has it: ",
)


@dataclass(frozen=True)
class Relation:
    """A relation from a subject to its value. Sums and differences are relations of two numbers."""

    name: str  # name in the steps of tasks
    subject: str  # kind of the subject
    value: str  # kind of the value
    words: frozenset[str]  # words by which a text may ask for it
    question: str  # question about the subject {x}, or about two numbers {x} and {y}
    noun: str  # the value as a part of a longer question
    sentences: tuple[str, ...] = ()  # statements with the subject {x} and the value {y}; () if texts do not have it
    table: str = ""  # table that has the value; "" if tables do not have it
    column: str = ""
    counts: bool = False  # the value is the number of rows that have the subject in the column
    program: str = ""  # Python program that computes the value; "" if it is not a calculation
    compared: tuple[str, str] = ("", "")  # "most" or "least", and a question that compares two subjects
    computed: tuple[str, str] = ("", "")  # name of a calculation, and a question that asks for it about two subjects

    @property
    def skill(self) -> str:
        """The skill that can find the value."""
        return SKILLS[0] if self.sentences else SKILLS[1] if self.table else SKILLS[2]

    @property
    def place(self) -> tuple[str, str]:
        """The table and the column of the value."""
        return self.table, self.column

    def select(self, subject: str) -> str:
        """Return the SQL statement that finds the value."""
        if self.counts:
            return f"SELECT count(*) FROM {self.table} WHERE {self.column} = '{subject}'"
        return f"SELECT {self.column} FROM {self.table} WHERE name = '{subject}'"

    def falsify(self, subject: str) -> str:
        """Return an SQL statement that changes the value."""
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


# Lines of each relation: name, kinds of subject and value, words; question and noun; sentences, column or program; for
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


def questions_about(kind: str) -> Iterable[Relation]:
    """Return the relations whose subjects are of a kind, without calculations."""
    return (relation for relation in RELATIONS.values() if relation.subject == kind and not relation.program)


# --- worlds -----------------------------------------------------------------------------------------------------------


class Fact(NamedTuple):
    """A fact: a relation, its subjects, and their value."""

    relation: str  # name of the relation
    subjects: tuple[str, ...]  # an entity, or two numbers
    value: str  # an entity, a river or a number
    sentence: str = ""  # sentence that states the fact; "" if texts do not state it


@dataclass(frozen=True)
class World:
    """A procedural world: its names, facts, sentences and tables."""

    number: int
    names: Mapping[str, tuple[str, ...]]  # kind -> all names
    facts: Mapping[tuple[str, str], Fact]  # (relation, subject) -> fact
    texts: tuple[str, ...]  # sentences, page by page
    script: str  # SQL that creates the tables

    @functools.cached_property
    def kind_of(self) -> Mapping[str, str]:
        """The kind of each name."""
        return {name: kind for kind, names in self.names.items() for name in names}

    def fact(self, relation: str, subjects: tuple[str, ...]) -> Fact:
        """Return the fact about subjects.

        Raises:
            KeyError: The relation has no such subjects.
        """
        if not RELATIONS[relation].program:
            return self.facts[relation, subjects[0]]
        x, y = map(int, subjects)
        return Fact(relation, subjects, str(x + y if relation == "sum" else abs(x - y)))

    def named(self, text: str, kind: str | None = None) -> tuple[str, ...]:
        """Return the names of this world in a text, in order, each once.

        If a name contains another one, only the longer name counts.

        Args:
            text: Any text.
            kind: The kind of names; None for all kinds of entities; "numbers" for numbers without a sign.
        """
        if kind == "numbers":
            return tuple(dict.fromkeys(re.findall(r"(?<![\w.])\d{1,12}\b", text.replace(",", ""))))
        names = dict.fromkeys(match.group() for match in self._names.finditer(text))
        return tuple(name for name in names if kind is None or self.kind_of[name] == kind)

    @functools.cached_property
    def _names(self) -> re.Pattern[str]:
        ordered = sorted(self.kind_of, key=len, reverse=True)
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, ordered))})\b")


@functools.cache
def worlds() -> Mapping[int, World]:
    """Return the worlds by number, from `data/worlds.jsonl`. `scripts/build_worlds.py` generates the file."""
    text = (resources.files("llm_dec_pomdp.contrib.research") / "data" / "worlds.jsonl").read_text(encoding="utf-8")
    return {of.number: of for of in map(_world, text.splitlines())}


def _world(line: str) -> World:
    row = json.loads(line)
    texts = tuple(row["texts"])
    facts = {
        (name, subject): Fact(name, (subject,), value, "" if place is None else texts[place])
        for name, subject, value, place in row["facts"]
    }
    names = {kind: tuple(found) for kind, found in row["names"].items()}
    return World(row["number"], names, facts, texts, row["script"])
