"""The reward of a class that several authors wrote, 0 to 4.

    structure 0.5  ->  syntax 0.5  ->  tests 0..2  +  class 0..0.5  +  integration 0..0.5

An author without a method of its own (written once, by its author alone, with the parameters of the skeleton) ends the
sum after structure: whatever others write, a team of one is none.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ...sandbox import Job, Limits, Verdict
from ...types import Score
from .program import MODULE, Spec, Written, assembled, gold_of, syntax_problem, without

COMPONENTS = ("structure", "syntax", "tests", "class", "integration")
DIAGNOSTICS = ("tests_passed", "tests_total", "methods_right", "class_right", "coverage", "overlap", "integrated")
STRUCTURE, SYNTAX, TESTS, WHOLE, INTEGRATION = 0.5, 0.5, 2.0, 0.5, 0.5
LIMITS = Limits(cpu_seconds=4.0, case_seconds=1.0)
OF_SLOW = Limits(cpu_seconds=30.0, case_seconds=12.0)
Judge = Callable[[Sequence[Job]], Sequence[Verdict]]


def job(spec: Spec, bodies: Mapping[str, str]) -> Job:
    """What the judge is to run."""
    limits = OF_SLOW if spec.slow else LIMITS
    return Job("", spec.tests, "", modules=((MODULE, assembled(spec, bodies)),), limits=limits)


def cases_of(verdict: Verdict, classes: Collection[str], but: Collection[str] = ()) -> list[bool]:
    """The results of all tests of some classes, but for these."""
    results = zip(verdict.tests, verdict.cases, strict=True)
    return [held for name, held in results if name.partition(".")[0] in classes and name not in but]


def share(cases: Sequence[bool]) -> float:
    """Of the tests that passed; 0 of none."""
    return sum(cases) / len(cases) if cases else 0.0


def passes(spec: Spec, verdict: Verdict, method: str) -> bool:
    """All tests of a method passed."""
    return share(cases_of(verdict, [spec.methods[method]])) == 1


def score(spec: Spec, found: Written, n_authors: int, judge: Judge) -> Score:
    """The reward of what authors wrote.

    Args:
        spec: Of the row.
        found: The methods in their texts.
        n_authors: How many there are.
        judge: Runs jobs; a failure of its own makes the score NaN.
    """
    parts: dict[str, float] = dict.fromkeys(COMPONENTS, 0.0)
    right = [method for method in spec.names if found.is_right(spec, method)]
    parts["structure"] = STRUCTURE * len(right) / len(spec.names)
    counts = {
        "coverage": len(found.bodies) / len(spec.names),
        "overlap": len(found.copies | {method for method, _ in found.foreign}) / len(spec.names),
    }
    idle = [author for author in range(n_authors) if not set(found.of(author)) & set(right)]
    if idle:
        who = ", ".join(f"author {author + 1}" for author in idle)
        return _scored(parts, counts, f"{who} wrote no method that is its own alone and has the right parameters")
    if problem := syntax_problem(spec, found.bodies):
        return _scored(parts, counts, problem)
    parts["syntax"] = SYNTAX
    [verdict] = judge([job(spec, found.bodies)])
    if verdict.outcome == "infra_error":
        return _scored(parts | {"tests": math.nan}, counts, "\n".join(verdict.notes))
    known = facts_of(spec, judge)
    if known is None:
        return _scored(parts | {"tests": math.nan}, counts, "the row's own solution could not be judged")
    of_methods = cases_of(verdict, spec.methods.values(), known.easy)
    whole = cases_of(verdict, spec.whole, known.easy)
    parts["tests"] = TESTS * share(of_methods)
    parts["class"] = WHOLE * share(whole or of_methods)
    integrated = _integrated(spec, found, verdict, known, judge)
    parts["integration"] = INTEGRATION * integrated if integrated is not None else parts["class"]
    counts |= {
        "tests_passed": float(verdict.passed),
        "tests_total": float(verdict.total),
        "methods_right": sum(passes(spec, verdict, method) for method in spec.names) / len(spec.names),
        "class_right": float(verdict.outcome == "passed"),
        "integrated": integrated or 0.0,
    }
    return _scored(parts, counts, "\n".join(verdict.notes), verdict.outcome)


def _scored(parts: dict[str, float], counts: dict[str, float], detail: str, outcome: str = "not run") -> Score:
    known = {name: counts.get(name, 0.0) for name in DIAGNOSTICS}
    return Score(sum(parts.values()), parts, known, {"outcome": outcome, "detail": detail})


# --- integration ------------------------------------------------------------------------------------------------------


def _integrated(spec: Spec, found: Written, verdict: Verdict, known: RowFacts, judge: Judge) -> float | None:
    """Of the methods that need another author's, the share that pass and fail when that one is a stub.

    None where no method needs another author's; NaN where the judge failed.
    """
    targets = {method: _foreign(found, method, known.needs[method]) for method in spec.names if method in found.owners}
    targets = {method: others for method, others in targets.items() if others}
    if not targets:
        return None if len(found.owners) == len(spec.names) else 0.0
    passing = [method for method in targets if passes(spec, verdict, method)]
    authors = sorted({found.owners[method] for method in passing})
    stubbed = [
        frozenset(other for method in passing if found.owners[method] == author for other in targets[method])
        for author in authors
    ]
    verdicts = judge([job(spec, without(found.bodies, methods)) for methods in stubbed])
    if any(without_others.outcome == "infra_error" for without_others in verdicts):
        return math.nan
    by_author = dict(zip(authors, verdicts, strict=True))
    kept = [method for method in passing if not passes(spec, by_author[found.owners[method]], method)]
    return len(kept) / len(targets)


def _foreign(found: Written, method: str, needed: Collection[str]) -> frozenset[str]:
    """Of the methods that a method needs, those that belong to another author."""
    return frozenset(other for other in needed if found.owners.get(other, -1) not in (-1, found.owners[method]))


class RowFacts(NamedTuple):
    """What running a row's own solution says of its tests.

    Attributes:
        needs: By method those without which a test of it fails.
        easy: Tests that stubs pass, those that return None or those that raise. They say nothing and do not count.
    """

    needs: Mapping[str, frozenset[str]]
    easy: frozenset[str]


_KEPT = 512
_known: OrderedDict[tuple[str, str], RowFacts] = OrderedDict()


def facts_of(spec: Spec, judge: Judge) -> RowFacts | None:
    """The facts of a row, found once in this process; None where the judge failed."""
    key = spec.solution, spec.test
    if key not in _known:
        gold = gold_of(spec.solution, spec.class_name)
        nothing = {name: f"def {name}(*arguments, **named):\n    return None\n" for name in spec.names}
        verdicts = judge(
            [job(spec, bodies) for bodies in ({}, nothing, *(without(gold, [name]) for name in spec.names))]
        )
        if any(verdict.outcome == "infra_error" for verdict in verdicts):
            return None
        stubs, stubbed = verdicts[:2], dict(zip(spec.names, verdicts[2:], strict=True))
        easy = {name for v in stubs for name, held in zip(v.tests, v.cases, strict=True) if held}
        _known[key] = RowFacts(
            {m: frozenset(o for o in spec.names if o != m and not passes(spec, stubbed[o], m)) for m in spec.names},
            frozenset(easy),
        )
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    return _known[key]
