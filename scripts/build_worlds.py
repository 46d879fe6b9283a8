"""Write the procedural worlds of research-v0 and the questions about them.

    python scripts/build_worlds.py

The script writes `worlds.jsonl` and `questions.jsonl` into `llm_dec_pomdp/contrib/research/data`. The number of a world
is its seed and determines the world and its questions. Every tenth question of a world has the same form.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from llm_dec_pomdp.contrib.research.questions import truth_of_steps
from llm_dec_pomdp.contrib.research.worlds import (
    KINDS,
    RELATIONS,
    RUMOURS,
    Fact,
    Relation,
    World,
    questions_about,
    worlds,
)
from llm_dec_pomdp.seeding import derive, uniforms
from llm_dec_pomdp.types import TaskItem

DATA = Path(__file__).resolve().parents[1] / "llm_dec_pomdp" / "contrib" / "research" / "data"
# In these worlds, a question about a fact in a text always finds it in its five best passages; a test verifies this.
WORLDS: Mapping[str, tuple[int, ...]] = {"train": (2, 3, 4, 6, 7, 8), "test": (9, 10, 11)}
EACH = 20  # questions about a world
# Forms of questions and lengths of chains; every tenth question of a world has the same form.
_FORMS = (
    *(("ask", 2), ("ask", 3), ("compare", 1, 1), ("compute", 1, 1), ("ask", 1)),
    *(("compare", 2, 2), ("compute", 2, 2), ("ask", 2), ("compute", 3, 2), ("compare", 1, 2)),
)

# Sentences that answer no question, with the same words as sentences that answer one.
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

T = TypeVar("T")

COUNTS = {"people": 30, "towns": 12, "companies": 20, "works": 26}
_SURNAMES, _RIVERS = 24, 8
_EACH = _SURNAMES + COUNTS["towns"] + _RIVERS  # number of names that a world takes from the stock
_FACTS_WITH_RUMOUR = 14
_SEED = 20_251_113
_DRAWS = 1 << 15  # more random numbers than a world or its questions use
_FIRST_NAMES = (
    "Ada Bruno Clara David Edda Felix Greta Hugo Ida Jonas Karla Leo Mina Nils Olga Paul Rosa Simon Tilda Viktor"
).split()
_TRADES = "Mills Foundry Press Bakery Shipyard Glassworks Brewery Books Printers Ropes".split()
_TITLES = ("The Bells of {}", "A Winter in {}", "Letters to {}", "The Ferryman of {}", "Roads from {}", "{} by Night")
_STARTS = "B Br D Dr F G Gr H K Kl L M N P R S St T Tr V W".split()
_MIDDLES = "a e i o u al el in or un ar".split()
_ENDS = "ben der fen kel len mar nor pel rick sten tor vik win zel".split()


_RANGES = {"opened": (1801, 1989), "staff": (5, 900), "pages": (60, 900), "population": (1000, 90_000)}


class Draws:
    """Random numbers from a seed, the same on every platform."""

    def __init__(self, seed: int) -> None:
        self._numbers: Iterator[float] = iter(uniforms(seed, _DRAWS).tolist())

    def below(self, count: int) -> int:
        """Return an integer in [0, count)."""
        return int(next(self._numbers) * count)

    def pick(self, things: Sequence[T]) -> T:
        """Return a random element."""
        return things[self.below(len(things))]

    def shuffled(self, things: Sequence[T]) -> list[T]:
        """Return all elements in random order."""
        mixed = list(things)
        for place in range(len(mixed) - 1, 0, -1):
            other = self.below(place + 1)
            mixed[place], mixed[other] = mixed[other], mixed[place]
        return mixed


@functools.cache
def _stock() -> tuple[str, ...]:
    """Return all made-up names in random order."""
    every = [start + middle + end for start in _STARTS for middle in _MIDDLES for end in _ENDS]
    return tuple(Draws(derive(_SEED, "names")).shuffled(every))


def most_worlds() -> int:
    """Return the number of worlds for which there are names."""
    return len(_stock()) // _EACH


def made_world(number: int) -> World:
    """Return the world with a number from 0 to `most_worlds() - 1`."""
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
    """Return all facts and the texts: facts that are not in tables, rumours, and sentences that answer no question."""
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
    """Return the SQL that makes a table of each kind with columns."""
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
    """Return the names of a world. Families share a surname; companies and works are named after people and towns."""
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
    """Return the value of every subject of a relation. Nobody teaches two people, and all numbers are different."""
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
    """Return the sentence with a fact and, for a doubted fact, the rumour that contradicts it."""
    relation = RELATIONS[key[0]]
    first, second = draws.shuffled(relation.sentences)[:2]
    sentences = [first.format(x=key[1], y=value)]
    if doubted:
        other = draws.pick([name for name in names[relation.value] if name not in (value, key[1])])
        sentences.append(draws.pick(RUMOURS) + second.format(x=key[1], y=other))
    return sentences


# --- questions --------------------------------------------------------------------------------------------------------


class Chain(NamedTuple):
    """Chain of relations that are followed one after the other."""

    start: str
    relations: tuple[Relation, ...]

    def passed(self, of: World) -> list[str]:
        """Return the start and the value of every relation."""
        names = [self.start]
        for relation in self.relations:
            names.append(of.facts[relation.name, names[-1]].value)
        return names

    def noun(self) -> str:
        """Return the noun of the last relation."""
        return functools.reduce(lambda words, relation: relation.noun.format(x=words), self.relations[:-1], self.start)

    def lines(self, before: int = 0) -> list[str]:
        """Return the steps as lines, numbered after `before` other steps."""
        first, *rest = (relation.name for relation in self.relations)
        return [f"{first}|{self.start}", *(f"{name}|#{before + place}" for place, name in enumerate(rest, 1))]


def questions() -> list[TaskItem]:
    """Return the questions about all worlds."""
    return [item for split, numbers in WORLDS.items() for number in numbers for item in _about(number, split)]


def _about(number: int, split: str) -> list[TaskItem]:
    of, draws = worlds()[number], Draws(derive(number, "questions"))
    items: dict[str, TaskItem] = {}
    while len(items) < EACH:
        place = len(items)
        what, *lengths = _FORMS[place % len(_FORMS)]
        question_and_lines = _chained(of, draws, *lengths) if what == "ask" else _paired(of, draws, what, *lengths)
        if question_and_lines is None or question_and_lines[0] in items:
            continue
        question, lines = question_and_lines
        fields = {"corpus": f"world:{number}", "steps": "\n".join(lines)}
        item = TaskItem(f"{split}/{number}/{place}", question, split, fields=fields)
        answer = truth_of_steps(item)[-1].value or ""
        items[question] = replace(item, fields={**fields, "answer": answer})
    return list(items.values())


def _chained(of: World, draws: Draws, length: int) -> tuple[str, list[str]] | None:
    """Return a question for the end of a chain, or None if a name occurs twice or the question has the answer."""
    chain = _chain(of, draws, length)
    passed, question = chain.passed(of), chain.relations[-1].question.format(x=chain.noun())
    return (question, chain.lines()) if _one_way(passed) and passed[-1] not in question else None


def _paired(of: World, draws: Draws, what: str, first: int, second: int) -> tuple[str, list[str]] | None:
    """Return a question about the numbers at the ends of two chains, or None if they cannot be compared."""
    reached = {relation.value for relation in RELATIONS.values()}
    numeric = [relation for relation in RELATIONS.values() if relation.compared[0]]
    last = draws.pick([relation for relation in numeric if first == second == 1 or relation.subject in reached])
    chains = [_chain(of, draws, length, last) for length in (first, second)]
    (*_, subject, left), (*_, other, right) = (chain.passed(of) for chain in chains)
    if subject == other or left == right or not all(_one_way(chain.passed(of)) for chain in chains):
        return None
    name, question = last.compared if what == "compare" else last.computed
    lines = [*chains[0].lines(), *chains[1].lines(first), f"{name}|#{first}|#{first + second}"]
    nouns = dict(zip("xy", (chain.noun() for chain in chains), strict=True))
    if what == "compute" and of.fact(name, (left, right)).value in (left, right):
        return None
    return question.format(**nouns), lines


def _one_way(passed: Sequence[str]) -> bool:
    return len(set(passed)) == len(passed) and passed[-1] != "0"


def _chain(of: World, draws: Draws, length: int, last: Relation | None = None) -> Chain:
    """Return a chain that ends with a relation, or with any relation if `last` is None."""
    while True:
        start = draws.pick(of.names[draws.pick(KINDS) if length > 1 or last is None else last.subject])
        relations, name = list[Relation](), start
        for step in range(length):
            able = list(_following(of.kind_of[name], relations, last, ends=step == length - 1))
            if not able:
                break
            relations.append(draws.pick(able))
            name = of.facts[relations[-1].name, name].value
        else:
            return Chain(start, tuple(relations))


def _following(kind: str, used: Sequence[Relation], last: Relation | None, *, ends: bool) -> Iterator[Relation]:
    """Return the possible next relations of a chain; a number can only be at its end."""
    for relation in questions_about(kind):
        if relation not in used and (last in (None, relation) if ends else relation.value != "numbers"):
            yield relation


def main() -> None:
    """Write both files."""
    DATA.mkdir(exist_ok=True)
    numbers = sorted(number for numbers in WORLDS.values() for number in numbers)
    write("worlds.jsonl", [row_of(made_world(number)) for number in numbers])
    rows = [{"id": i.id, "split": i.split, "question": i.prompt, "fields": dict(i.fields)} for i in questions()]
    write("questions.jsonl", rows)


def row_of(of: World) -> dict[str, Any]:
    """Return a world as a row; a fact that a text states has the place of that text."""
    places = {text: place for place, text in enumerate(of.texts)}
    facts = [(f.relation, f.subjects[0], f.value, places.get(f.sentence)) for f in of.facts.values()]
    return {"number": of.number, "names": of.names, "facts": facts, "script": of.script, "texts": of.texts}


def write(name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as lines of JSON."""
    (DATA / name).write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
