"""What can be known in a world, and how it is said: relations, their sentences, and questions about them.

Every relation is a function: a subject has one value. So a chain of relations has one right answer.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    """A relation from a subject to its value.

    Attributes:
        name: As it is called in the tasks.
        subject: Kind of the subject.
        value: Kind of the value.
        sentences: How it is said of the subject {x} and the value {y}.
        question: About the subject {x}.
        noun: The value as a part of a longer question.
        words: Words of a text that asks for it.
    """

    name: str
    subject: str
    value: str
    sentences: tuple[str, ...]
    question: str
    noun: str
    words: frozenset[str]


def _relation(name: str, kinds: str, question: str, noun: str, words: str, *sentences: str) -> Relation:
    subject, value = kinds.split()
    return Relation(name, subject, value, sentences, question, noun, frozenset(words.split()))


RELATIONS = {
    relation.name: relation
    for relation in (
        _relation(
            "birthplace",
            "people towns",
            "In which town was {x} born?",
            "the town in which {x} was born",
            "born birth birthplace",
            "{x} was born in {y}.",
            "{x}, born in {y}, has two sisters.",
            "Born in {y}, {x} soon left.",
        ),
        _relation(
            "home",
            "people towns",
            "In which town is the home of {x}?",
            "the town in which {x} has a home",
            "home live lives living resides",
            "The home of {x} is in {y}.",
            "{x} has a home in {y}.",
            "{x} is at home in {y}.",
        ),
        _relation(
            "employer",
            "people companies",
            "Which company employs {x}?",
            "the company that employs {x}",
            "employs employer employed works work job",
            "{y} employs {x}.",
            "It is {y} that employs {x}.",
            "{y} employs {x} and a cousin.",
        ),
        _relation(
            "teacher",
            "people people",
            "Who taught {x}?",
            "the teacher of {x}",
            "taught teacher teach teaches",
            "{x} was taught by {y}.",
            "{y} taught {x}.",
            "It was {y} that taught {x}.",
        ),
        _relation(
            "founder",
            "companies people",
            "Who founded {x}?",
            "the founder of {x}",
            "founder founded start started",
            "{x} was founded by {y}.",
            "{x}, founded by {y}, grew.",
            "It was {y} that founded {x}.",
        ),
        _relation(
            "seat",
            "companies towns",
            "In which town is {x} based?",
            "the town in which {x} is based",
            "based seat headquarters office",
            "{x} is based in {y}.",
            "Based in {y}, {x} has two offices.",
            "{x} has long been based in {y}.",
        ),
        _relation(
            "year",
            "companies years",
            "In which year was {x} opened?",
            "the year in which {x} was opened",
            "year opened opening earlier older when",
            "In {y} {x} was opened with a dance.",
            "{x} was opened in {y}.",
            "Opened in {y}, {x} began with two rooms.",
        ),
        _relation(
            "director",
            "companies people",
            "Who directs {x}?",
            "the person who directs {x}",
            "directs director directed head leads leader",
            "{y} directs {x}.",
            "It is {y} that directs {x}.",
            "The person who directs {x} is called {y}.",
        ),
        _relation(
            "author",
            "works people",
            "Who wrote {x}?",
            "the author of {x}",
            "wrote author written writer",
            "{y} wrote {x}.",
            "{y} wrote {x} in a year.",
            "It was {y} that wrote {x}.",
        ),
        _relation(
            "setting",
            "works towns",
            "In which town is {x} set?",
            "the town in which {x} is set",
            "set setting plays takes",
            "{x} is set in {y}.",
            "The story of {x} is set in {y}.",
            "Readers know that {x} is set in {y}.",
        ),
        _relation(
            "publisher",
            "works companies",
            "Which company published {x}?",
            "the company that published {x}",
            "published publisher publishes",
            "{y} published {x}.",
            "It was {y} that published {x}.",
            "{x} was published by {y}.",
        ),
        _relation(
            "mayor",
            "towns people",
            "Who is the mayor of {x}?",
            "the mayor of {x}",
            "mayor",
            "The mayor of {x} is {y}.",
            "{y} is the mayor of {x}.",
            "In {x} the mayor is called {y}.",
        ),
        _relation(
            "river",
            "towns rivers",
            "Which river flows by {x}?",
            "the river that flows by {x}",
            "river flows water",
            "The {y} flows by {x}.",
            "By {x} flows the {y}.",
            "{x} lies where the {y} flows.",
        ),
    )
}

# What says nothing that anybody asks for, in the words of what does.
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
