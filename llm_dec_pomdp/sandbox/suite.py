"""`unittest` in the judge: one verdict per test, and no test in the process of the program.

The tests are found by the syntax tree of the source: methods `test...` of its classes, in the order in which `unittest`
runs them. Each test has its own limits of time. A program that dies in one test is restarted for the next.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import math
import resource
import signal
import sys
import time
import unittest
from collections.abc import Callable, Generator, Sequence
from types import ModuleType
from typing import Any

from . import guest
from .guest_objects import module_of
from .jobs import Limits
from .proxies import World, packages_of, test_module
from .rewrite import KEPT, joined_code
from .solution import CaseTimeoutError, OverError, Solution, UnsupportedError, Zygote, ZygoteLostError


@functools.lru_cache(maxsize=KEPT)
def names(source: str) -> tuple[str, ...]:
    """Return `Class.test` of each test; raise SyntaxError, ValueError or RecursionError if a source does not parse."""
    found: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            methods = {inside.name for inside in node.body if isinstance(inside, ast.FunctionDef)}
            found += [f"{node.name}.{name}" for name in sorted(methods) if name.startswith("test")]
    return tuple(dict.fromkeys(found))


def nothing_held(outcome: str, tests: Sequence[str], notes: Sequence[str]) -> dict[str, Any]:
    """Return the verdict on a program whose tests could not be run."""
    cases = [False] * len(tests)
    return {"outcome": outcome, "total": max(1, len(tests)), "tests": [*tests], "cases": cases, "notes": [*notes]}


def judge(job: dict[str, Any], zygote: Zygote, slowness: float, gone: Callable[[], bool]) -> dict[str, Any]:
    """Run the tests of a job with `modules` and return the verdict as a dictionary; see `judge.judge`."""
    try:
        tests = names(job["check"])
    except (SyntaxError, ValueError, RecursionError) as error:
        return {"outcome": "infra_error", "notes": [f"the tests do not parse: {error}"]}
    limits = Limits(**job["limits"])
    limits = Limits(limits.cpu_seconds * slowness, limits.case_seconds * slowness, limits.memory_mb)
    files = tuple((path, source) for path, source in job["modules"])
    solution = Solution(zygote, ("modules", files, False), limits, gone)
    try:
        with cpu_limit(limits.cpu_seconds + limits.case_seconds + 1):
            answer = _run(Suite(solution, limits.case_seconds), job, tests)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        with contextlib.suppress(ZygoteLostError):
            solution.stop()
    return answer | {"cpu_seconds": solution.cpu, "starved": solution.starved}


def _run(suite: Suite, job: dict[str, Any], tests: Sequence[str]) -> dict[str, Any]:
    modules = packages_of([module_of(path) for path, _ in job["modules"]])
    world = World(suite.solution, modules)
    held: ModuleType | None = None
    problem = suite.tried(lambda: None)  # the process starts
    if not problem:
        try:
            held = test_module(world, job["prelude"])
        except Exception as error:
            return {"outcome": "infra_error", "notes": [f"the prelude of the tests: {guest.explain(error)}"]}
        problem = suite.tried(lambda: exec(joined_code(job["check"]), vars(held)))
    if problem or held is None:
        return nothing_held("timeout" if suite.over else "load_error", tests, [problem])
    sys.modules["random"].seed(0)  # tests with random inputs use the same ones every time
    cases: list[bool] = []
    notes: list[str] = []
    for name in tests:
        failure = suite.over or suite.test(held, name)
        cases.append(not failure)
        if failure:
            notes.append(f"{name}: {failure}")
    passed = sum(cases)
    outcome = "timeout" if suite.over else "passed" if passed == len(cases) and cases else "failed"
    if outcome == "failed" and suite.unsupported:
        outcome = "unsupported"
    return {
        "outcome": outcome,
        "passed": passed,
        "total": max(1, len(cases)),
        "tests": tests,
        "cases": cases,
        "shares": [float(case) for case in cases],
        "notes": notes,
    }


class Suite:
    """A runner that runs tests one by one."""

    def __init__(self, solution: Solution, case_seconds: float) -> None:
        self.solution = solution
        self.case_seconds = case_seconds
        self.over = ""  # the reason why no further test is run
        self.unsupported = False
        self._prepared: dict[str, str] = {}  # class -> problem of its `setUpClass`

    def test(self, module: ModuleType, name: str) -> str:
        """Run a test and return the reason of its failure; "" if it passed."""
        kind, method = name.split(".")
        case: Any = vars(module).get(kind)
        if not (isinstance(case, type) and issubclass(case, unittest.TestCase)):
            return f"{kind} is no TestCase"
        if kind not in self._prepared:
            self._prepared[kind] = self.tried(case.setUpClass)
        if problem := self._prepared[kind]:
            return problem
        result = Result(self)
        if problem := self.tried(lambda: case(method).run(result)):
            return problem
        if result.problem:
            return result.problem
        return "" if result.wasSuccessful() and result.testsRun == 1 and not result.skipped else "was not run"

    def tried(self, run: Callable[[], Any]) -> str:
        """Call `run` with limits of time and return the problem; "" if there was none."""
        signal.setitimer(signal.ITIMER_PROF, self.case_seconds)
        try:
            self.solution.ready()
            self.solution.begin_case()
            run()
        except ZygoteLostError:
            raise
        except BaseException as error:  # exceptions of the program, too
            return self.reason(error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return ""

    def reason(self, error: BaseException) -> str:
        """Return the reason of a failed test, and note whether more tests can run; raise a ZygoteLostError again."""
        if isinstance(error, ZygoteLostError):
            raise error
        if isinstance(error, OverError) and error.outcome in ("timeout", "infra_error"):
            self.over = str(error)
        self.unsupported |= isinstance(error, UnsupportedError)
        if isinstance(error, (CaseTimeoutError, OverError)):
            return str(error) or "took too long"
        note = getattr(error, "program_note", None)
        return note.encode("utf-8", "replace").decode() if type(note) is str else guest.explain(error)


class Result(unittest.TestResult):
    """The first problem of a test."""

    def __init__(self, suite: Suite) -> None:
        super().__init__()
        self._suite = suite
        self.problem = ""

    def _note(self, err: Any) -> None:
        reason = self._suite.reason(err[1])
        self.problem = self.problem or reason or "failed"

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        """See `unittest`."""
        self._note(err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        """See `unittest`."""
        self._note(err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        """See `unittest`."""
        if err is not None:
            self._note(err)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        """See `unittest`."""
        self.problem = self.problem or "unexpected success"


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Generator[None]:
    """End this process by SIGXCPU if it uses more CPU time; no timer can interrupt a C function of the tests."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    end = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (end if hard == resource.RLIM_INFINITY else min(end, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
