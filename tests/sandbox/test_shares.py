"""What a program cannot multiply, skip or stretch: asserts in loops, what ends loops, and the time of the tests."""

from __future__ import annotations

import resource

import pytest
from judging import IDENTITY, LITTLE_CPU, job, judged

from llm_dec_pomdp.sandbox import Limits, SandboxPool
from llm_dec_pomdp.sandbox.judge import MAX_CASES
from llm_dec_pomdp.sandbox.rewrite import rewrite_check

# --- exceptions that end loops of the tests ---------------------------------------------------------------------------

LOOPS = [
    "assert all(map(c, [2, 4]))",
    "assert not any(map(c, [2, 4]))",
    "assert list(map(c, [2, 4])) == []",
    "assert list(zip(map(c, [2, 4]), 'ab')) == []",
    "assert next(map(c, [2]), True)",
    "assert sum(map(c, [2, 4])) == 0",
    "assert list(iter(lambda: c(1), None)) == []",
    "assert [x for x in filter(c, [1, 2])] == []",
    "assert dict(map(c, [1])) == {}",
]
ENDS = ["StopIteration", "StopAsyncIteration", "GeneratorExit", "type('Mine', (StopIteration,), {})"]


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_a_loop_is_an_error_of_the_program(pool: SandboxPool, end: str) -> None:
    outcome, passed, total = judged(pool, f"def f(x):\n    raise {end}\n", *LOOPS)
    assert (outcome, passed, total) == ("failed", 0, len(LOOPS))


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "BaseException('x')", "GeneratorExit", "StopIteration(3)"])
def test_what_is_not_for_ordinary_handlers_reaches_them(pool: SandboxPool, raised: str) -> None:
    lines = ["y = c(1)", "for i in range(2):", "    assert c(0) == 0"]
    solution = f"def f(x):\n    if x: raise {raised}\n    return 0\n"
    [verdict] = pool.run([job(solution, *lines)])
    assert (verdict.outcome, verdict.passed, verdict.total) == ("failed", 1, 2)
    assert verdict.notes[0].startswith(f"y = c(1): {raised.partition('(')[0]}")


def test_a_generator_of_the_tests_that_is_closed_hears_of_it(pool: SandboxPool) -> None:
    """It does not count as a statement that raised."""
    lines = [
        "def each():",
        "    for i in range(3):",
        "        assert c(i) == i",
        "        yield c(i)",
        "values = each()",
        "assert next(values) == 0",
        "values.close()",
    ]
    assert judged(pool, IDENTITY, *lines) == ("passed", 2, 2)


# --- every assert of the source weighs once ---------------------------------------------------------------------------

ROUNDS = ["for x in c(100_000):", "    assert x >= 0"]
MANY = "def f(n):\n    return [0] * n\n"


def test_many_values_weigh_as_one(pool: SandboxPool) -> None:
    [verdict] = pool.run([job(MANY, "assert c(1) == [1]", *ROUNDS, limits=Limits(cpu_seconds=4.0))])
    assert (verdict.outcome, verdict.passed, verdict.total) == ("failed", 1, 2)
    assert (len(verdict.cases), verdict.shares) == (MAX_CASES, (0.0, 1.0))
    assert len(verdict.notes) == 1


def test_many_failures_are_one_note(pool: SandboxPool) -> None:
    lines = ["for x in c(5_000):", "    assert x", "    c.nothing", "assert c(1) == [0]"]
    [verdict] = pool.run([job(MANY, *lines)])
    assert (verdict.passed, verdict.total, len(verdict.cases)) == (1, 2, MAX_CASES)
    assert verdict.notes[0] == "x: assertion failed"
    assert len(verdict.notes) == 2


NINE = "calls = []\ndef f(x):\n    calls.append(x)\n    return x if len(calls) < 10 else 1 // 0\n"
SHARES = {
    "a round that raises before its assert has failed it": (
        "def f(x):\n    return x if x < 1 else 1 // 0\n",
        ["for i in range(10):", "    y = c(i)", "    assert y == i"],
        ("failed", 0.1, 1),
    ),
    "a loop that could not begin": (
        "def f(x):\n    return 1 // x\n",
        ["for x in c(0):", "    assert x", "assert c(1) == 1"],
        ("failed", 1, 2),
    ),
    "a program that dies in a loop loses it": (
        "import os\ndef f(x):\n    return x if x < 9 else os._exit(0)\n",
        ["assert c(1) == 1", "for i in range(10):", "    assert c(i) == i"],
        ("died", 1, 2),
    ),
    "a loop that was over is kept": (
        "import os\ndef f(x):\n    return x if x < 9 else os._exit(0)\n",
        ["for i in range(9):", "    assert c(i) == i", "assert c(9) == 9"],
        ("died", 1, 2),
    ),
    "a program that dies in a function of the tests loses its asserts": (
        "import os\ndef f(x):\n    return x if x < 9 else os._exit(0)\n",
        ["def same(x):", "    assert c(x) == x", "for i in range(10):", "    same(i)"],
        ("died", 0, 1),
    ),
    "a program that dies where no assert is left": (
        "import os\ndef f(x):\n    return x if x < 9 else os._exit(0)\n",
        ["assert c(1) == 1", "c(9)"],
        ("died", 1, 2),
    ),
    "a loop that goes on after an error keeps its share": (
        NINE,
        ["for i in range(100):", "    y = c(i)", "    assert y == i"],
        ("failed", 0.09, 1),
    ),
    "a loop that an error ends loses it": (
        NINE,
        ["i = 0", "while i < 100:", "    y = c(i)", "    assert y == i", "    i += 1", "assert i < 100"],
        ("failed", 1, 2),
    ),
    "a loop in a block that an error ends loses it": (
        NINE,
        ["with open('/dev/null'):", "    i = 0", "    while i < 100:", "        i += c(1)", "        assert i"],
        ("failed", 0, 1),
    ),
    "a loop over values that end in an error loses it": (
        NINE,
        ["for y in map(c, range(100)):", "    assert y < 9"],
        ("failed", 0, 1),
    ),
    "an assert in an inner loop": (
        "def f(x):\n    return x % 2\n",
        ["for i in range(2):", "    for j in range(2):", "        assert c(i) == j"],
        ("failed", 0.5, 1),
    ),
}


@pytest.mark.parametrize(("solution", "lines", "verdict"), SHARES.values(), ids=SHARES)
def test_the_share_of_an_assert(
    pool: SandboxPool, solution: str, lines: list[str], verdict: tuple[str, float, int]
) -> None:
    assert judged(pool, solution, *lines) == verdict


def test_asserts_are_numbered_in_the_order_of_the_source() -> None:
    source = "def check(c):\n    assert c(1)\n    for x in c(2):\n        assert x\n    assert True\n    assert c(3)\n"
    tests = rewrite_check(source + "def other():\n    assert 0\n")
    assert [tests.claim(number) for number in range(4)] == ["c(1)", "x", "c(3)", "0"]
    assert [(tests.first_line(n), list(within)) for n, (_, within) in enumerate(tests.statements)] == [
        ("for x in c(2):", [1])
    ]
    assert tests.inner == {3}


# --- time of the tests ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tests_have_no_more_time_than_the_program(pool: SandboxPool) -> None:
    lines = ["assert c(1) == [None]", "for x in c(1_000_000):", "    assert not x", "assert c(1) == [None]"]
    limits = Limits(cpu_seconds=1.0, case_seconds=1.0, memory_mb=256)
    [verdict] = pool.run([job(MANY.replace("0", "None"), *lines, limits=limits)])
    assert (verdict.outcome, verdict.passed, verdict.total) == ("timeout", 1, 3)


@pytest.mark.slow
def test_tests_that_compute_for_ever_with_a_value_are_a_wrong_answer(pool: SandboxPool) -> None:
    """A sum is one C function, and no timer of Python ends it."""
    lines = ["assert c(1) == 1", "assert sum(range(c(10**10))) == 1"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    [verdict] = pool.run([job(IDENTITY, *lines, limits=LITTLE_CPU)])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)  # of the judge, too, which has ended
    assert (verdict.outcome, verdict.passed) == ("timeout", 0)
    assert verdict.notes == ("the tests took too long with what the program returned",)
    assert after.ru_utime - before.ru_utime < pool.slowness * (0.4 + 0.2) + 4
