"""Questions about procedural worlds, each with one right answer, and the state of a question.

The steps of a question are lines `relation|subject`; the subject `#1` is the value of the first step. A chain ends in
its answer (`founder|Bel Mills`, then `birthplace|#1`). Two chains may be compared (`most|#2|#4`: whichever subject of
these steps has the greater value) or computed with (`sum|#2|#4`). Main compares itself; every other step takes an
invocation, so that a question needs one to six.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from llm_dec_pomdp.envs.tools import ToolState
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Message, TaskItem

from .worlds import KINDS, RELATIONS, Draws, Fact, Relation, World, questions_about, world

# In these worlds the five best passages for a question that texts answer always hold its fact; a test verifies that.
WORLDS: Mapping[str, tuple[int, ...]] = {"train": (2, 3, 4, 6, 7, 8), "test": (9, 10, 11)}
EACH = 20  # questions about a world
COMPARISONS = {"most": max, "least": min}
# What is done with chains of how many steps; every tenth question of a world is alike.
_FORMS = (
    *(("ask", 2), ("ask", 3), ("compare", 1, 1), ("compute", 1, 1), ("ask", 1)),
    *(("compare", 2, 2), ("compute", 2, 2), ("ask", 2), ("compute", 3, 2), ("compare", 1, 2)),
)


class QuestionStep(NamedTuple):
    """A step of a question."""

    relation: str  # its name, or that of a comparison
    subjects: tuple[str, ...]  # names; "#2" is the value of the second step, or the step itself in a comparison


class Known(NamedTuple):
    """What is known of a step."""

    step: QuestionStep
    subjects: tuple[str, ...] = ()  # () while they are not known
    value: str | None = None

    @property
    def open(self) -> bool:
        """It can be asked for, and is not known."""
        return bool(self.subjects) and self.value is None and self.step.relation in RELATIONS


@functools.lru_cache(maxsize=4096)
def _steps(lines: str) -> tuple[QuestionStep, ...]:
    rows = [line.split("|") for line in lines.split("\n") if "|" in line]
    return tuple(QuestionStep(relation, tuple(subjects)) for relation, *subjects in rows)


def steps_of(item: TaskItem) -> tuple[QuestionStep, ...]:
    """The steps of a task; () where they are not known."""
    return _steps(item.fields.get("steps", ""))


def knowledge(steps: Sequence[QuestionStep], lookup: Callable[[Relation, tuple[str, ...]], str | None]) -> list[Known]:
    """What is known of every step, by a function that gives the value of a relation where it is known."""
    known: list[Known] = []
    for step in steps:
        before = [known[int(subject[1:]) - 1] if subject.startswith("#") else None for subject in step.subjects]
        values = [found.value if found else name for found, name in zip(before, step.subjects, strict=True)]
        subjects = tuple(value for value in values if value is not None)
        if len(subjects) < len(values):
            known.append(Known(step))
        elif step.relation in COMPARISONS:
            compared = [(int(found.value or 0), found.subjects[0]) for found in before if found]
            known.append(Known(step, subjects, COMPARISONS[step.relation](compared)[1]))
        else:
            known.append(Known(step, subjects, lookup(RELATIONS[step.relation], subjects)))
    return known


def truth_of_steps(item: TaskItem) -> list[Known]:
    """Every step as it is."""
    return knowledge(steps_of(item), lambda relation, subjects: world_of(item).fact(relation.name, subjects).value)


def facts_of(item: TaskItem) -> tuple[Fact, ...]:
    """The facts behind the steps; a comparison has none of its own."""
    known = [step for step in truth_of_steps(item) if step.step.relation in RELATIONS]
    return tuple(world_of(item).fact(step.step.relation, step.subjects) for step in known)


def world_of(item: TaskItem) -> World:
    """The world that an embedded question is about."""
    return world(int(item.fields["corpus"].partition(":")[2]))


# --- the embedded questions -------------------------------------------------------------------------------------------


class Chain(NamedTuple):
    """Relations that are followed one after the other."""

    start: str
    relations: tuple[Relation, ...]

    def passed(self, of: World) -> list[str]:
        """The start, and the value of every relation."""
        names = [self.start]
        for relation in self.relations:
            names.append(of.facts[relation.name, names[-1]].value)
        return names

    def noun(self) -> str:
        """In words, what its last relation is about."""
        return functools.reduce(lambda words, relation: relation.noun.format(x=words), self.relations[:-1], self.start)

    def lines(self, before: int = 0) -> list[str]:
        """Its steps, after so many others."""
        first, *rest = (relation.name for relation in self.relations)
        return [f"{first}|{self.start}", *(f"{name}|#{before + place}" for place, name in enumerate(rest, 1))]


@functools.cache
def embedded() -> tuple[TaskItem, ...]:
    """The embedded questions; training and test questions are about different worlds."""
    return tuple(item for split, numbers in WORLDS.items() for number in numbers for item in _about(number, split))


def _about(number: int, split: str) -> list[TaskItem]:
    of, draws = world(number), Draws(derive(number, "questions"))
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
    """A question that asks for the end of a chain; None where a name comes twice or the answer is in the question."""
    chain = _chain(of, draws, length)
    passed, question = chain.passed(of), chain.relations[-1].question.format(x=chain.noun())
    return (question, chain.lines()) if _one_way(passed) and passed[-1] not in question else None


def _paired(of: World, draws: Draws, what: str, first: int, second: int) -> tuple[str, list[str]] | None:
    """A question about the numbers at the ends of two chains; None where they say nothing of each other."""
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
    """A chain that ends with a relation; with any where it is None."""
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
    """The relations that may come next in a chain: no number before its end."""
    for relation in questions_about(kind):
        if relation not in used and (last in (None, relation) if ends else relation.value != "numbers"):
            yield relation


# --- the state of a question ------------------------------------------------------------------------------------------


class Used(NamedTuple):
    """A call and what it gave."""

    tool: str
    input: str  # the argument as text; "" where there is none
    answer: str
    ran: bool


class Invocation(NamedTuple):
    """A sub-agent that was asked once."""

    agent: str  # its id
    kind: str  # which specialist it is
    subtask: str  # what it is to find out
    turns: int = 0  # texts that it wrote
    calls: tuple[Used, ...] = ()
    report: str | None = None  # what main sees; None while it works
    valid: bool = True  # whether it has reported in time
    expert: float = 0.0  # how well it did its subtask, in [0, 1]; NaN where the judge gave no number

    @property
    def reported(self) -> str:
        """Its report; "" while it works."""
        return self.report or ""

    @property
    def ran(self) -> tuple[Used, ...]:
        """The calls that gave something."""
        return tuple(used for used in self.calls if used.ran)

    @property
    def usable(self) -> bool:
        """It has reported, in a valid format."""
        return self.valid and self.report is not None


class QuestionState(NamedTuple):
    """The state of a question."""

    item: TaskItem
    seed: int  # decides the order of options
    turn: int = 0  # joint actions played
    tools: ToolState = ToolState()
    invocations: tuple[Invocation, ...] = ()  # all of them, in order
    calls: tuple[Used, ...] = ()  # main's
    pending: tuple[str, ...] = ()  # for main's last calls the sub-agent that each has asked; "" where it asked nobody
    messages: tuple[tuple[str, Message], ...] = ()  # what agents are told next

    @property
    def working(self) -> tuple[Invocation, ...]:
        """Those that have not reported yet."""
        return tuple(invocation for invocation in self.invocations if invocation.report is None)
