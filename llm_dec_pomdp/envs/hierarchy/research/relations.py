"""The relations of a procedural world, the sentences that state them, and the questions about them.

Every subject of a relation has one value, so that a chain of relations has one right answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
