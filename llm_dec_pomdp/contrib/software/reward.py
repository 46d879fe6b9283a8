"""The reward of a class that several authors wrote, 0 to 4: form 0..0.8, tests 0..1.2, weakest 0..2.

A test passes if it passes in the class with the methods of all authors and, for each author, in the solution with the
methods of this author.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from llm_dec_pomdp.sandbox import Job, Limits, Verdict, cached_verdicts
from llm_dec_pomdp.types import Score

from .program import MODULE, Spec, Written, assembled, gold_of

COMPONENTS = ("form", "tests", "weakest")
DIAGNOSTICS = ("tests_passed", "tests_total", "methods_right", "class_right", "coverage", "overlap")
FORM, TESTS, WEAKEST = 0.8, 1.2, 2.0
LIMITS = Limits(cpu_seconds=4.0, case_seconds=1.0)
OF_SLOW = Limits(cpu_seconds=30.0, case_seconds=12.0)


def job(spec: Spec, bodies: Mapping[str, str]) -> Job:
    """Return the sandbox job that runs the tests of a row on the class with these methods."""
    limits = OF_SLOW if spec.slow else LIMITS
    return Job("", spec.tests, "", modules=((MODULE, assembled(spec, bodies)),), limits=limits)


def passed_in_all(verdicts: Sequence[Verdict]) -> Verdict:
    """Merge verdicts on several programs: a test passes if it passes in all of them.

    Args:
        verdicts: Verdicts on the same tests. If the sandbox failed on a program, its verdict is returned unchanged.
    """
    failed = [verdict for verdict in verdicts if verdict.outcome != "passed"]
    for verdict in failed:
        if verdict.outcome == "infra_error":
            return verdict
    tests, passed = max((verdict.tests for verdict in verdicts), key=len), [*map(passed_in, verdicts)]
    cases = tuple(all(test in names for names in passed) for test in tests)
    notes: dict[str, str] = {}  # the first note of each test
    for note in (note for verdict in failed for note in verdict.notes):
        notes.setdefault(note.partition(":")[0], note)
    first, total = (*failed, *verdicts)[0], max(verdict.total for verdict in verdicts)
    return replace(first, tests=tests, cases=cases, passed=sum(cases), total=total, notes=tuple(notes.values()))


def passed_in(verdict: Verdict) -> set[str]:
    """Return the names of the tests that pass; empty if no test ran, such as after a timeout."""
    return {test for test, case in zip(verdict.tests, verdict.cases, strict=True) if case}


def share(cases: Sequence[bool]) -> float:
    """Return the share of tests that passed, in [0, 1]; 0 without tests."""
    return sum(cases) / len(cases) if cases else 0.0


def score(spec: Spec, found: Written, n_authors: int) -> Score:
    """Compute the reward of a class, in [0, 4]; NaN if the sandbox fails.

    Args:
        spec: The class of the row.
        found: The methods in the texts of the authors.
        n_authors: The number of authors.
    """
    right = found.right(spec)
    parts = {"form": FORM * len(right) / len(spec.names), "tests": 0.0, "weakest": 0.0}
    counts = dict.fromkeys(DIAGNOSTICS, 0.0) | {
        "coverage": len(found.bodies) / len(spec.names),
        "overlap": len(found.copies | {method for method, _ in found.foreign}) / len(spec.names),
    }
    if not right:
        detail = "No method is written once, by its author, with the parameters of the skeleton."
        return Score(sum(parts.values()), parts, counts, {"outcome": "not run", "detail": detail})
    gold, mine = gold_of(spec.solution, spec.class_name), [set(found.of(author)) for author in range(n_authors)]
    by_author = [{m: right.get(m, "") if m in of else gold[m] for m in spec.names} for of in mine]
    verdict = passed_in_all(cached_verdicts([job(spec, bodies) for bodies in (right, *by_author)]))
    needs = needs_of(spec)
    if verdict.outcome == "infra_error" or needs is None:
        return Score(
            math.nan,
            parts | {"tests": math.nan},
            counts,
            {"outcome": "infra_error", "detail": "\n".join(verdict.notes)},
        )
    passed = passed_in(verdict)
    counted = [test in passed for test in needs]
    of_author = [[test in passed for test, methods in needs.items() if methods & of] for of in mine]
    parts |= {"tests": TESTS * share(counted), "weakest": WEAKEST * min(map(share, of_author))}
    of_method = [[t in passed for t in verdict.tests if t.startswith(f"{of}.")] for of in spec.methods.values()]
    counts |= {
        "tests_passed": float(sum(counted)),
        "tests_total": float(len(counted)),
        "methods_right": share([share(cases) == 1 for cases in of_method]),
        "class_right": float(verdict.outcome == "passed"),
    }
    return Score(sum(parts.values()), parts, counts, {"outcome": verdict.outcome, "detail": "\n".join(verdict.notes)})


# --- methods that a test needs ----------------------------------------------------------------------------------------

STUBS = ("raise NotImplementedError", *(f"return {value}" for value in ("None", "True", "False", "0", "''", "[]")))
_KEPT = 512
_known: OrderedDict[tuple[str, str], Mapping[str, frozenset[str]]] = OrderedDict()


def needs_of(spec: Spec) -> Mapping[str, frozenset[str]] | None:
    """Return for each test the methods that it needs: it fails if one of them returns None.

    Return None if the sandbox failed. Tests that a class of `STUBS` passes do not count and are left out. The result is
    cached for each row.
    """
    key = spec.solution, spec.test
    if key not in _known:
        gold = gold_of(spec.solution, spec.class_name)
        stubs = [{m: f"def {m}(*arguments, **named):\n    {stub}\n" for m in spec.names} for stub in STUBS]
        nothing = stubs[STUBS.index("return None")]
        without = [{**gold, method: nothing[method]} for method in spec.names]
        verdicts = cached_verdicts([job(spec, bodies) for bodies in (*stubs, *without)])
        if any(verdict.outcome == "infra_error" for verdict in verdicts):
            return None
        tests, passed = max((verdict.tests for verdict in verdicts), key=len), [*map(passed_in, verdicts)]
        easy = set[str]().union(*passed[: len(stubs)])
        passed_without = dict(zip(spec.names, passed[len(stubs) :], strict=True))
        _known[key] = {
            test: frozenset(method for method in spec.names if test not in passed_without[method])
            for test in tests
            if test not in easy
        }
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    return _known[key]
