"""The reward of the code tasks (arXiv:2508.04652 and its released experiments), 0 to 4.

Levels are checked in order, and the first one that fails ends the sum:

    structure 0.4 + 0.6  ->  syntax 0.5  ->  tests 0..1  ->  cooperation 0..1.5

Levels and weights are the published ones. The published code compares texts; this module compares syntax trees. Every
assert counts once, as the share of its executions that held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...sandbox import Job, Verdict
from ...types import Score, TaskItem
from . import analysis

COMPONENTS = ("structure", "syntax", "tests", "cooperation")
DIAGNOSTICS = ("tests_passed", "tests_total")
AUX_DEFINED, MAIN_DEFINED, SYNTAX, TESTS = 0.4, 0.6, 0.5, 1.0
CALLS_AUX, NO_WRAPPER, DROPS_RESULT = 0.5, 1.0, -0.5
ProgramJudge = Callable[[Sequence[Job]], Sequence[Verdict]]


@dataclass(frozen=True, slots=True)
class Program:
    """The two functions in a pair of texts; "" for a function that is missing."""

    aux: str
    main: str

    @classmethod
    def find(cls, aux_text: str, main_text: str, entry_point: str) -> Program:
        """Take `aux` from the first text and the entry point from the second."""
        return cls(analysis.find_function(aux_text, "aux"), analysis.find_function(main_text, entry_point))

    @property
    def source(self) -> str:
        """Both functions as one module."""
        return f"{self.aux}\n\n{self.main}"


def score(item: TaskItem, program: Program, judge: ProgramJudge) -> Score:
    """Return the joint reward of a program, 0 to 4; NaN if the sandbox failed.

    Args:
        item: The problem, with fields `entry_point` and `test`.
        program: The two functions.
        judge: Runs programs in the code sandbox.
    """
    parts, problem = first_levels(item, program)
    if problem:
        return summed(parts, problem)
    [verdict] = judge([job(item, program.source)])
    parts["tests"] = TESTS * verdict.passed / verdict.total if verdict.total else 0.0
    if verdict.outcome == "infra_error":
        parts["tests"] = math.nan
    if verdict.passed and program.aux:
        parts["cooperation"] = cooperation_part(analysis.cooperation(program.main))
    return summed(parts, detail(verdict), verdict)


def first_levels(item: TaskItem, program: Program) -> tuple[dict[str, float], str]:
    """Return the components after structure and syntax, and why the sum ends there; "" if it continues."""
    parts: dict[str, float] = dict.fromkeys(COMPONENTS, 0.0)
    entry_point = item.fields["entry_point"]
    if analysis.has_return(program.aux):
        parts["structure"] += AUX_DEFINED
    if not (program.main and analysis.has_return(program.main)):
        return parts, f"no function {entry_point!r} with a return"
    parts["structure"] += MAIN_DEFINED
    prelude = analysis.prelude(item.prompt, entry_point)
    if analysis.parse(prelude + "\n" + program.source) is None:
        return parts, "the program has a syntax error"
    parts["syntax"] = SYNTAX
    return parts, ""


def job(item: TaskItem, source: str, check: str | None = None) -> Job:
    """Return a job for the sandbox: a source with the tests of a problem, or with `check` instead."""
    entry_point = item.fields["entry_point"]
    return Job(source, check or item.fields["test"], entry_point, analysis.prelude(item.prompt, entry_point))


def detail(verdict: Verdict) -> str:
    """Return the notes of a verdict, one per line."""
    return "\n".join(" ".join(note.split()) for note in verdict.notes)


def cooperation_part(use: analysis.Cooperation) -> float:
    """Return the component: +0.5 for a call of the helper, +1.0 if main is no wrapper, -0.5 for a dropped value."""
    if not use.calls:
        return 0.0
    return CALLS_AUX + (0.0 if use.wraps else NO_WRAPPER) + (DROPS_RESULT if use.drops else 0.0)


def summed(parts: dict[str, float], note: str, verdict: Verdict | None = None) -> Score:
    """Return the score of some components, with the counts and the outcome of the sandbox."""
    counts = {"tests_passed": float(verdict.passed), "tests_total": float(verdict.total)} if verdict else {}
    notes = {"outcome": verdict.outcome if verdict else "not run", "detail": note}
    return Score(sum(parts.values()), parts, diagnostics=counts, notes=notes)
