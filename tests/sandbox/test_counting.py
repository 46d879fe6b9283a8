"""What counts as passed and failed: asserts, exceptions, the prelude, and values that travel."""

from __future__ import annotations

import pytest
from judging import IDENTITY, job, judged

from llm_dec_pomdp.sandbox import Job, SandboxPool

DIVIDES = "def f(x):\n    return 1 // x\n"
LEAVES = "import os\ndef f(x):\n    os._exit(0)\n"
CALL_OR_RAISE = [
    "def call(x):",
    "    for _ in range(1):",
    "        y = c(x)",
    "    return y",
    "try:",
    "    call(-1)",
    "except ValueError:",
    "    pass",
    "else:",
    "    assert False",
]
ELSE_FALSE = ["if c(1) == 1:", "    assert True", "else:", "    assert not 'right'"]
MUST_RAISE = ["try:", "    c(-1)", "    assert False, 'must raise'", "except ValueError:", "    pass"]
CAREFUL = "def f(x):\n    if x < 0:\n        raise ValueError\n    return x\n"

COUNTED: dict[str, tuple[str, list[str], tuple[str, int, int]]] = {
    "all hold": (IDENTITY, ["assert c(1) == 1", "assert c(2) == 2"], ("passed", 2, 2)),
    "none holds": (IDENTITY, ["assert c(1) == 2", "assert c(1) == 3"], ("failed", 0, 2)),
    "the share of rounds of a loop": (IDENTITY, ["for i in range(5):", "    assert c(i) != 2"], ("failed", 0.8, 1)),
    "in a while loop": (IDENTITY, ["i = 0", "while i < 3:", "    assert c(i) == i", "    i += 1"], ("passed", 1, 1)),
    "in a nested function": (
        IDENTITY,
        ["def both(x):", "    assert c(x) == 1", "both(1)", "both(2)"],
        ("failed", 0.5, 1),
    ),
    "a false constant counts": (IDENTITY, ["assert False", "assert c(1) == 1"], ("failed", 1, 2)),
    "nothing to count is not passed": (IDENTITY, ["assert True"], ("failed", 0, 0)),
    "a place for wrong programs that is not reached": (IDENTITY, [*ELSE_FALSE], ("passed", 1, 1)),
    "a place for wrong programs that is reached": (DIVIDES, ["c = lambda x: 0", *ELSE_FALSE], ("failed", 0, 1)),
    "one of two places for wrong programs": (
        IDENTITY,
        ["if c(1) == 2:", "    assert False", *ELSE_FALSE],
        ("passed", 2, 2),
    ),
    "an exception that should come and does": (CAREFUL, MUST_RAISE, ("passed", 1, 1)),
    "an exception that should come and does not": (IDENTITY, MUST_RAISE, ("failed", 0, 1)),
    "a statement that raises before a place for wrong programs": (
        CAREFUL,
        ["y = c(-1)", *ELSE_FALSE],
        ("failed", 0, 1),
    ),
    "a death before a place for wrong programs": (LEAVES, ELSE_FALSE, ("died", 0, 1)),
    "asserts of a loop without rounds do not hold": (IDENTITY, ["for y in c([]):", "    assert y"], ("failed", 0, 0)),
    "later asserts run after one that raises": (DIVIDES, ["assert c(0) == 0", "assert c(1) == 1"], ("failed", 1, 2)),
    "later rounds run after one that raises": (
        "def f(x):\n    return 6 // (x - 1) + 6\n",
        ["for i in range(4):", "    y = c(i)", "    assert y >= 0"],
        ("failed", 0.75, 1),
    ),
    "SystemExit fails one assert": (
        "def f(x):\n    if x: raise SystemExit\n",
        ["assert c(1)", "assert c(0) is None"],
        ("failed", 1, 2),
    ),
    "an expected exception is no failure": (
        "def f(x):\n    raise ValueError('no')\n",
        ["try:", "    c(1)", "except ValueError as error:", "    assert str(error) == 'no'", "assert True"],
        ("passed", 1, 1),
    ),
    "an assert that is rightly not reached": (
        "def f(x):\n    if x: raise ValueError\n    return 0\n",
        ["try:", "    c(1)", "    assert False, 'must raise'", "except ValueError:", "    pass", "assert c(0) == 0"],
        ("passed", 1, 1),
    ),
    "the branch that is not taken": (
        IDENTITY,
        ["if c(1):", "    assert c(1) == 1", "else:", "    assert c(0) == 0"],
        ("passed", 1, 1),
    ),
    "what a helper of the tests raises is caught by its caller": (
        CAREFUL,
        [*CALL_OR_RAISE, "assert call(1) == 1"],
        ("passed", 1, 1),
    ),
    "what a helper of the tests raises is a failure where nobody catches it": (
        CAREFUL,
        [*CALL_OR_RAISE, "assert call(1) == 1", "call(-1)", "assert call(2) == 2"],
        ("failed", 2, 3),
    ),
    "a name bound in an assert": (IDENTITY, ["assert (y := c(1)) == 1", "assert y == 1"], ("passed", 2, 2)),
    "the function by its own name": (IDENTITY, ["assert f(1) == c(1)"], ("passed", 1, 1)),
    "asserts that were not reached are failures": (
        LEAVES,
        ["assert 1 + 1 == 2", "assert c(1)", "assert 1 + 1 == 2"],
        ("died", 1, 3),
    ),
    "a test that swallows everything does not hide a death": (
        LEAVES,
        ["try:", "    c(1)", "except:", "    pass", "assert 1 + 1 == 2"],
        ("died", 0, 1),
    ),
    "an argument that cannot travel": (IDENTITY, ["y = c(len)", "assert y"], ("unsupported", 0, 2)),
    "arguments are copies": (
        "def f(x):\n    x.append(2)\n    return x\n",
        ["given = [1]", "assert c(given) == [1, 2]", "assert given == [1]"],
        ("passed", 2, 2),
    ),
}


@pytest.mark.parametrize(("solution", "lines", "verdict"), COUNTED.values(), ids=COUNTED)
def test_what_counts(pool: SandboxPool, solution: str, lines: list[str], verdict: tuple[str, int, int]) -> None:
    assert judged(pool, solution, *lines) == verdict


@pytest.mark.parametrize("constant", ["True", "1", "'text'", "True, 'message'"])
def test_asserts_of_a_true_constant_are_dropped(pool: SandboxPool, constant: str) -> None:
    assert judged(pool, IDENTITY, f"assert {constant}", "assert c(1) == 1") == ("passed", 1, 1)


def test_a_failed_assert_is_a_note(pool: SandboxPool) -> None:
    [verdict] = pool.run([job(IDENTITY, "assert c(1) == 2, 'a message'", "assert c(1) / 0")])
    assert verdict.notes == ("c(1) == 2: assertion failed", "c(1) / 0: ZeroDivisionError: division by zero")
    assert verdict.loaded


def test_a_statement_that_raises_is_one_failure_and_later_asserts_run(pool: SandboxPool) -> None:
    [verdict] = pool.run([job(DIVIDES, "y = c(0)", "assert c(1) == 1", "assert c(1) == 1")])
    assert (verdict.outcome, verdict.passed, verdict.total) == ("failed", 2, 3)
    assert verdict.notes == ("y = c(0): ZeroDivisionError: integer division or modulo by zero",)


def test_cases_are_the_results_in_order(pool: SandboxPool) -> None:
    solution = "import os\ndef f(x):\n    return x if x < 3 else os._exit(0)\n"
    lines = ["assert c(1) == 1", "assert c(2) == 1", "assert c(2) == 2", "assert c(3) == 3", "assert c(1) == 1"]
    [verdict] = pool.run([job(solution, *lines)])
    assert verdict.cases == (True, False, True, False, False)
    assert (verdict.outcome, verdict.passed, verdict.total, verdict.weak) == ("died", 2, 5, False)


def test_random_tests_draw_the_same_every_time(pool: SandboxPool) -> None:
    lines = ["import random", "assert c(random.random()) == 0"]
    notes = {pool.run([job("def f(x):\n    raise ValueError(x)\n", *lines)])[0].notes for _ in range(2)}
    assert len(notes) == 1


def test_tests_that_do_not_parse_are_our_fault(pool: SandboxPool) -> None:
    [verdict] = pool.run([Job(IDENTITY, "def check(c):\n    assert (\n", "f")])
    assert verdict.outcome == "infra_error"
    assert verdict.notes[0].startswith("the tests do not parse: ")


# --- the prelude ------------------------------------------------------------------------------------------------------


def test_the_prelude_is_in_scope_of_solution_and_tests(pool: SandboxPool) -> None:
    given = "import math\ndef given(x):\n    return x + 1\n"
    solution = "def f(x):\n    return given(math.floor(x))\n"
    assert judged(pool, solution, "assert c(1.5) == given(1) == math.floor(2.5)", prelude=given) == ("passed", 1, 1)


def test_a_solution_cannot_change_the_helpers_of_the_tests(pool: SandboxPool) -> None:
    given = "def given(x):\n    return x + 1\n"
    assert judged(pool, IDENTITY + "def given(x):\n    return x\n", "assert c(1) == given(1)", prelude=given)[1] == 0


# --- exceptions and values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "caught"),
    [
        ("ValueError('no')", "ValueError"),
        ("KeyError('k')", "KeyError"),
        ("type('Mine', (LookupError,), {})('no')", "LookupError"),
        ("UnicodeDecodeError('utf-8', b'x', 0, 1, 'why')", "UnicodeError"),
        (
            "ExceptionGroup('all', [ValueError()]) if 'ExceptionGroup' in dir(__builtins__) else Exception()",
            "Exception",
        ),
        ("AssertionError('no')", "AssertionError"),
        ("SystemExit(3)", "SystemExit"),
        ("RecursionError()", "RuntimeError"),
        ("OSError(2, 'gone')", "OSError"),
    ],
)
def test_exceptions_reach_the_tests_as_builtin_types(pool: SandboxPool, raised: str, caught: str) -> None:
    lines = ["seen = False", "try:", "    c(1)", f"except {caught}:", "    seen = True", "assert seen"]
    assert judged(pool, f"def f(x):\n    raise {raised}\n", *lines) == ("passed", 1, 1)


def test_arguments_of_an_exception_travel(pool: SandboxPool) -> None:
    lines = ["try:", "    c(1)", "except KeyError as error:", "    assert error.args == ('k', 2)"]
    assert judged(pool, "def f(x):\n    raise KeyError('k', 2)\n", *lines) == ("passed", 1, 1)


@pytest.mark.parametrize(
    ("solution", "line"),
    [
        ("def f(x):\n    yield from range(x)\n", "assert list(c(3)) == [0, 1, 2]"),
        ("def f(x):\n    return map(str, x)\n", "assert list(c([1, 2])) == ['1', '2']"),
        ("def f(x):\n    return {1: x}.values()\n", "assert list(c(3)) == [3]"),
        ("from enum import IntEnum\nclass E(IntEnum):\n    A = 1\ndef f(x):\n    return E.A\n", "assert c(3) == 1"),
        (
            "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\ndef f(x):\n    return P(x)\n",
            "assert c(1) == c(1) and c(2).x == 2",
        ),
    ],
    ids=["generator", "map", "view", "enum", "dataclass"],
)
def test_objects_and_iterators_pass_with_low_trust_only(pool: SandboxPool, solution: str, line: str) -> None:
    assert judged(pool, solution, line)[0] == "unsupported"
    assert judged(pool, solution, line, trust="low") == ("passed", 1, 1)


def test_low_trust_believes_no_comparison(pool: SandboxPool) -> None:
    solution = "class P:\n    x = 1\n    __eq__ = lambda a, b: True\ndef f(x):\n    return P()\n"
    assert judged(pool, solution, "assert c(1) == 1", trust="low") == ("failed", 0, 1)
