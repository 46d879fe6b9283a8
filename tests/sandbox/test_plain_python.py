"""A judged program has the meaning that Python gives it: nothing of the judge's own source reaches it."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from judging import check, job, judged

from llm_dec_pomdp.sandbox import Job, SandboxPool

IMPORTED = "from __future__ import annotations\n"
PROGRAMS = {
    "a name that is missing": "def f(x: List[int]):\n    return 1\n",
    "annotations": "def g(x: int):\n    return x\ndef f(x):\n    return int(g.__annotations__['x'] is int)\n",
    "signature": (
        "import inspect\ndef g(x: int):\n    return x\n"
        "def f(x):\n    return int(inspect.signature(g).parameters['x'].annotation is int)\n"
    ),
    "dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n"
        "def f(x):\n    return int(dataclasses.fields(P)[0].type is int)\n"
    ),
    "NamedTuple": (
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n"
        "def f(x):\n    return int(P.__annotations__['x'] is int)\n"
    ),
    "a decorator that casts": (
        "import functools\ndef cast(g):\n    @functools.wraps(g)\n    def run(x):\n"
        "        return g(g.__annotations__['x'](x))\n    return run\n"
        "@cast\ndef g(x: str):\n    return len(x)\ndef f(x):\n    return g(x)\n"
    ),
    "a class": "class P:\n    x: int = 1\ndef f(x):\n    return int(P.__annotations__['x'] is int)\n",
    "code in a text": (
        "names = {}\nexec('def g(x: int):\\n    return x', names)\n"
        "def f(x):\n    return int(names['g'].__annotations__['x'] is int)\n"
    ),
}
EVERY = PROGRAMS | {f"{name}, with the import": IMPORTED + program for name, program in PROGRAMS.items()}


def plain(source: str) -> tuple[str, int]:
    """The outcome and the passed asserts of `f(1) == 1`, twice, without the judge."""
    module = ModuleType("plain")
    sys.modules["plain"] = module
    try:
        exec(compile(source, "<plain>", "exec", dont_inherit=True), vars(module))
    except NameError:
        return "load_error", 0
    try:
        right = module.f(1) == 1
    except Exception:
        right = False
    return ("passed", 2) if right else ("failed", 0)


@pytest.mark.parametrize("program", EVERY.values(), ids=EVERY)
def test_a_program_means_what_it_means_to_python(pool: SandboxPool, program: str) -> None:
    outcome, passed = plain(program)
    assert judged(pool, program, "assert c(1) == 1", "assert c(1) == 1") == (outcome, passed, 2)
    tests = "import unittest\nimport program\nclass T(unittest.TestCase):\n" + "".join(
        f"    def test_{number}(self):\n        self.assertEqual(program.f(1), 1)\n" for number in (1, 2)
    )
    [verdict] = pool.run([Job("", tests, "", modules=(("program.py", program),))])
    assert (verdict.outcome, verdict.passed) == (outcome, passed)


def test_tests_and_what_a_problem_gives_mean_what_they_mean_to_python(pool: SandboxPool) -> None:
    given = "def given(x: int):\n    return x\n"
    tests = (
        "def g(x: int):\n    return x\n"
        + check("assert g.__annotations__ == given.__annotations__ == {'x': int}", "assert c(1) is True")
    )  # fmt: skip
    solution = "def f(x):\n    return given.__annotations__['x'] is int\n"
    [verdict] = pool.run([Job(solution, tests, "f", prelude=given)])
    assert verdict.outcome == "passed"


def test_a_future_import_of_the_problem_is_one_of_the_program(pool: SandboxPool) -> None:
    solution = "def g(x: Missing):\n    return x\ndef f(x):\n    return g.__annotations__['x']\n"
    assert pool.run([job(solution, "assert c(1) == 'Missing'", prelude=IMPORTED)])[0].outcome == "passed"
