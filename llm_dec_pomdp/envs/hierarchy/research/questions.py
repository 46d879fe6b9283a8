"""Questions of two and three hops about procedural worlds, each with one right answer.

A hop is a line `relation|subject`; the subject `#1` is the value of the first hop. A chain ends in its answer
(`founder|Bel Mills`, then `birthplace|#1`). A comparison has two independent hops and asks which value is earlier.

The state of a question is what its team has done so far.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....seeding import derive
from ....types import Event, Message, TaskItem
from .worlds import RELATIONS, VALUES, Draws, Fact, Relation, World, questions_about, world

# In these worlds the two best passages for a hop's question always hold its fact; a test verifies that.
WORLDS: Mapping[str, tuple[int, ...]] = {"train": (2, 3, 4, 6, 7, 8), "test": (9, 10, 11)}
EACH = 20  # questions about a world
_CHAINS = (2, 2, 3, 2, 3)  # hops of every five questions; every tenth question is a comparison
_STARTS = ("companies", "works", "towns")


class Hop(NamedTuple):
    """A step of a question."""

    relation: str  # its name
    subject: str  # an entity; "" where it is the value of an earlier hop
    after: int = -1  # index of that hop; -1 where the subject is named

    def question(self, subject: str) -> str:
        """The step as a question about a subject."""
        return RELATIONS[self.relation].question.format(x=subject)


def hops_of(item: TaskItem) -> tuple[Hop, ...]:
    """The hops of a task; () where they are not known."""
    lines = [line for line in item.fields.get("hops", "").split("\n") if "|" in line]
    pairs = [line.split("|") for line in lines]
    return tuple(
        Hop(relation, "", int(subject[1:]) - 1) if subject.startswith("#") else Hop(relation, subject)
        for relation, subject in pairs
    )


def facts_of(item: TaskItem, of: World) -> tuple[Fact, ...]:
    """The fact of every hop."""
    facts: list[Fact] = []
    for hop in hops_of(item):
        subject = hop.subject or facts[hop.after].value
        facts.append(of.facts[hop.relation, subject])
    return tuple(facts)


@functools.cache
def embedded() -> tuple[TaskItem, ...]:
    """The embedded questions; training and test questions are about different worlds."""
    return tuple(item for split, numbers in WORLDS.items() for number in numbers for item in _about(number, split))


def _about(number: int, split: str) -> list[TaskItem]:
    of, draws = world(number), Draws(derive(number, "questions"))
    items: dict[str, TaskItem] = {}
    while len(items) < EACH:
        place = len(items)
        if place % 10 == 9:
            question, answer, hops = _comparison(of, draws)
        else:
            question, answer, hops = _chain(of, draws, _CHAINS[place % len(_CHAINS)])
        if question not in items and answer:
            fields = {"answer": answer, "corpus": f"world:{number}", "hops": "\n".join(hops)}
            items[question] = TaskItem(f"{split}/{number}/{place}", question, split, fields=fields)
    return list(items.values())


def _chain(of: World, draws: Draws, length: int) -> tuple[str, str, Sequence[str]]:
    """A question in which every hop starts from the value of the one before; no answer where a name comes twice."""
    subject = draws.pick(of.names[draws.pick(_STARTS)])
    passed, question, hops = [subject], subject, [f"|{subject}"]
    used: list[Relation] = []
    for step in range(length):
        last = step == length - 1
        able = [r for r in questions_about(of.kind_of[subject]) if r not in used and (last or r.value not in VALUES)]
        relation = draws.pick(able)
        hops[step] = relation.name + hops[step]
        subject = of.facts[relation.name, subject].value
        question = (relation.question if last else relation.noun).format(x=question)
        used.append(relation)
        passed.append(subject)
        hops.append(f"|#{step + 1}")
    one_way = len(set(passed)) == len(passed) and subject not in question
    return question, subject if one_way else "", hops[:-1]


def _comparison(of: World, draws: Draws) -> tuple[str, str, Sequence[str]]:
    pair = draws.shuffled(of.names["companies"])[:2]
    years = [int(of.facts["year", company].value) for company in pair]
    question = f"Which was opened earlier, {pair[0]} or {pair[1]}?"
    return question, pair[years.index(min(years))], [f"year|{company}" for company in pair]


# --- the state of a question ------------------------------------------------------------------------------------------


class Invocation(NamedTuple):
    """A sub-agent that was asked once."""

    agent: str  # its id
    kind: str  # which specialist it is; "sub" where there are none
    subtask: str  # what it is to find out
    turns: int = 0  # texts that it wrote
    retrieved: tuple[int, ...] = ()  # indices of the passages that it was shown
    report: str | None = None  # what main sees; None while it works
    valid: bool = True  # whether its format is valid
    expert: float = 0.0  # how well it did its subtask, in [0, 1]; NaN where the judge gave no number

    @property
    def reported(self) -> str:
        """Its report; "" while it works."""
        return self.report or ""

    @property
    def usable(self) -> bool:
        """It has reported, in a valid format."""
        return self.valid and self.report is not None


class QuestionState(NamedTuple):
    """The state of a question."""

    item: TaskItem
    seed: int  # decides the options of the grammar "choice"
    turn: int = 0  # joint actions played
    invocations: tuple[Invocation, ...] = ()  # all of them, in order
    known: int = 0  # how many invocations main has the reports of
    writing: bool = False  # main was told to write its answer (grammar "choice")
    messages: tuple[tuple[str, Message], ...] = ()  # what agents are told next

    @property
    def working(self) -> tuple[Invocation, ...]:
        """Those that have not reported yet."""
        return tuple(invocation for invocation in self.invocations if invocation.report is None)


class Lead(NamedTuple):
    """What main decided."""

    what: str  # "ask", "write" (its answer, next), "answer", "stop" or "invalid"
    asks: tuple[tuple[str, str], ...] = ()  # kind and subtask of every sub-agent that is asked
    text: str = ""  # the answer, or why it is invalid


class Effect(NamedTuple):
    """What a text of a sub-agent does."""

    message: Message | None = None  # what the sub-agent is told next; None where it is done
    retrieved: tuple[int, ...] = ()  # indices of the passages that it is shown
    report: str | None = None  # its report; None while it goes on
    valid: bool = True  # whether the text could be read
    call: tuple[str, str] = ("", "")  # the tool that it called, and the argument; ("", "") for none


def tool_events(agent: str, tool: str, argument: str, result: str) -> list[Event]:
    """The events of a tool call and its result."""
    return [
        Event("call", agent, {"tool": tool, "input": argument}),
        Event("result", agent, {"tool": tool, "output": result}),
    ]
