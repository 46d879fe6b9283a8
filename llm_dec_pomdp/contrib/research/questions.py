"""Questions about procedural worlds, each with one right answer, and the state of a question.

The steps of a question are lines `relation|subject`. The subject `#1` is the value of the first step. A chain ends in
its answer (`founder|Bel Mills`, then `birthplace|#1`). Two chains may be compared: `most|#2|#4` is the subject of these
two steps with the greater value. Their values may also be used in a calculation (`sum|#2|#4`). Main compares itself.
Every other step needs an invocation, so a question needs one to six.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from importlib import resources
from typing import NamedTuple

from llm_dec_pomdp.envs.tools import ToolState
from llm_dec_pomdp.types import Message, TaskItem

from .worlds import RELATIONS, Fact, Relation, World, worlds

COMPARISONS = {"most": max, "least": min}


class QuestionStep(NamedTuple):
    """A step of a question."""

    relation: str  # name of a relation, or "most" or "least"
    subjects: tuple[str, ...]  # names; "#2" is the value of the second step, in a comparison the second step itself


class Known(NamedTuple):
    """A step with its subjects and its value, as far as an agent has observed them."""

    step: QuestionStep
    subjects: tuple[str, ...] = ()  # () while a subject is not known
    value: str | None = None  # None while it is not known

    @property
    def open(self) -> bool:
        """Whether the value is not known, but can be asked for."""
        return bool(self.subjects) and self.value is None and self.step.relation in RELATIONS


@functools.lru_cache(maxsize=4096)
def _steps(lines: str) -> tuple[QuestionStep, ...]:
    rows = [line.split("|") for line in lines.split("\n") if "|" in line]
    return tuple(QuestionStep(relation, tuple(subjects)) for relation, *subjects in rows)


def steps_of(item: TaskItem) -> tuple[QuestionStep, ...]:
    """Return the steps of a task; () if they are not known."""
    return _steps(item.fields.get("steps", ""))


def knowledge(steps: Sequence[QuestionStep], lookup: Callable[[Relation, tuple[str, ...]], str | None]) -> list[Known]:
    """Return every step with its known subjects and value.

    Args:
        steps: The steps of a question.
        lookup: Function from a relation and subjects to the value; None if the value is not known.
    """
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
    """Return every step with its true subjects and value."""
    return knowledge(steps_of(item), lambda relation, subjects: world_of(item).fact(relation.name, subjects).value)


def facts_of(item: TaskItem) -> tuple[Fact, ...]:
    """Return the facts of the steps, without comparisons."""
    known = [step for step in truth_of_steps(item) if step.step.relation in RELATIONS]
    return tuple(world_of(item).fact(step.step.relation, step.subjects) for step in known)


def world_of(item: TaskItem) -> World:
    """Return the world of an embedded question."""
    return worlds()[int(item.fields["corpus"].partition(":")[2])]


# --- the embedded questions -------------------------------------------------------------------------------------------


@functools.cache
def embedded() -> tuple[TaskItem, ...]:
    """Return the embedded questions, from `data/questions.jsonl`. `scripts/build_worlds.py` generates the file.

    Training and test questions are about different worlds.
    """
    text = (resources.files("llm_dec_pomdp.contrib.research") / "data" / "questions.jsonl").read_text(encoding="utf-8")
    rows = map(json.loads, text.splitlines())
    return tuple(TaskItem(row["id"], row["question"], row["split"], fields=row["fields"]) for row in rows)


# --- the state of a question ------------------------------------------------------------------------------------------


class Used(NamedTuple):
    """A call and its result."""

    tool: str
    input: str  # first argument as text; "" without arguments
    answer: str
    ran: bool  # whether the tool ran


class Invocation(NamedTuple):
    """One invocation of a sub-agent."""

    agent: str  # id
    kind: str  # role: its skills
    subtask: str
    round: int = 0  # turn of the episode in which main asked, from 1
    turns: int = 0  # texts so far
    calls: tuple[Used, ...] = ()
    report: str | None = None  # report that main observes; None while it works
    valid: bool = True  # whether the report has words and came in time
    expert: float = 0.0  # score of the report, in [0, 1]; NaN if the judge returned no number

    @property
    def reported(self) -> str:
        """The report; "" while it works."""
        return self.report or ""

    @property
    def ran(self) -> tuple[Used, ...]:
        """The calls that ran."""
        return tuple(used for used in self.calls if used.ran)

    @property
    def usable(self) -> bool:
        """Whether it has reported in a valid format."""
        return self.valid and self.report is not None


class QuestionState(NamedTuple):
    """The state of a question."""

    item: TaskItem
    turn: int = 0  # turns so far
    tools: ToolState = ToolState()
    invocations: tuple[Invocation, ...] = ()  # all of them, in order
    calls: tuple[Used, ...] = ()  # calls of main
    pending: tuple[str, ...] = ()  # for each of main's last calls the sub-agent that it started; "" for none
    messages: tuple[tuple[str, Message], ...] = ()  # next observations

    @property
    def working(self) -> tuple[Invocation, ...]:
        """The invocations that have not reported yet."""
        return tuple(invocation for invocation in self.invocations if invocation.report is None)
