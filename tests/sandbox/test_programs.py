"""What becomes of programs that do not load, of those that meet a limit, of odd honest ones, and what they can see."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from judging import IDENTITY, LITTLE_CPU, job, judged

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding.analysis import prelude
from llm_dec_pomdp.sandbox import Job, Limits, SandboxPool, capabilities, confine

HUMANEVAL = Path(llm_dec_pomdp.__file__).parent / "data" / "humaneval.jsonl"
READS = (
    "def f(path):\n    try:\n        with open(path, 'rb') as file:\n"
    "            return type(file.read(1)).__name__\n"
    "    except OSError as error:\n        return type(error).__name__\n"
)

# --- programs that do not load ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solution", "note"),
    [
        ("def f(x:\n", "SyntaxError"),
        ("1 / 0\n" + IDENTITY, "ZeroDivisionError"),
        ("raise SystemExit\n" + IDENTITY, "SystemExit"),
        ("import no_such_module\n" + IDENTITY, "ModuleNotFoundError"),
        ("def f(x):\n    return '\ud800'\n", "UnicodeEncodeError"),
        ("def f(x):\n    return '\x00'\n", "null bytes"),
        ("x = " + "(" * 1000 + ")" * 1000, "Error"),
        ("data = bytearray(1 << 40)\n" + IDENTITY, "MemoryError"),
    ],
    ids="syntax raise SystemExit import surrogate NUL parser memory".split(),
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


# --- limits -----------------------------------------------------------------------------------------------------------

LOOP = "def f(x):\n    while x:\n        pass\n    return 0\n"
LIMITED: dict[str, tuple[str, list[str], tuple[str, int, int]]] = {
    "a loop in a plain statement": (LOOP, ["assert c(0) == 0", "y = c(1)", "assert y == 0"], ("timeout", 1, 2)),
    "disabling the timer of the case": (
        "import signal\nsignal.setitimer(signal.ITIMER_PROF, 0)\nwhile True:\n    pass\n",
        ["assert c(1)"],
        ("timeout", 0, 1),
    ),
    "endless recursion": (
        "def f(x):\n    return f(x) if x else 0\n",
        ["assert c(1)", "assert c(0) == 0"],
        ("failed", 1, 2),
    ),
    "a file that grows without end": (
        "def f(x):\n    with open('big', 'wb') as file:\n        return file.write(b'x' * (4 << 20))\n",
        ["assert c(1)"],
        ("failed", 0, 1),
    ),
    "a crash": (
        "import ctypes\ndef f(x):\n    ctypes.string_at(0)\n",
        ["assert 1 + 1 == 2", "assert c(1)"],
        ("died", 1, 2),
    ),
}


@pytest.mark.parametrize(("solution", "lines", "verdict"), LIMITED.values(), ids=LIMITED)
def test_what_meets_a_limit(pool: SandboxPool, solution: str, lines: list[str], verdict: tuple[str, int, int]) -> None:
    assert judged(pool, solution, *lines, limits=LITTLE_CPU) == verdict


def test_an_endless_loop_in_a_call_costs_that_assert(pool: SandboxPool) -> None:
    [verdict] = pool.run([job(LOOP, "assert c(1) == 0", "assert c(0) == 0")])
    assert (verdict.outcome, verdict.passed, verdict.total) == ("failed", 1, 2)
    assert verdict.notes == ("c(1) == 0: took too long",)
    assert 0.15 <= verdict.cpu_seconds <= 1.0
    assert verdict.wall_seconds >= 0.15


@pytest.mark.parametrize("bomb", ["bytearray(1 << 40)", "[0] * (1 << 33)", "'x' * (1 << 32)", "list(range(1 << 30))"])
def test_a_memory_bomb_costs_that_assert(pool: SandboxPool, bomb: str) -> None:
    solution = f"def f(x):\n    return len({bomb}) if x else 0\n"
    limits = Limits(cpu_seconds=4.0, case_seconds=2.0, memory_mb=128)
    [verdict] = pool.run([job(solution, "assert c(1)", "assert c(0) == 0", limits=limits)])
    assert (verdict.outcome, verdict.passed, verdict.total) == ("failed", 1, 2)
    assert "MemoryError" in verdict.notes[0]


def test_global_state_is_lost_with_a_case_that_took_too_long(pool: SandboxPool) -> None:
    solution = "calls = []\ndef f(x):\n    calls.append(x)\n    while x == 2: pass\n    return len(calls)\n"
    lines = ["assert c(1) == 1", "assert c(1) == 2", "assert c(2)", "assert c(1) == 1"]
    [verdict] = pool.run([job(solution, *lines)])
    assert (verdict.outcome, verdict.cases) == ("failed", (True, True, False, True))


# --- honest oddities --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solution", "line"),
    [
        ("def f(x):\n    for _ in range(20_000):\n        print('x' * 100)\n    return x\n", "assert c(1) == 1"),
        ("import sys\ndef f(x):\n    sys.stderr.write('x' * 10**6)\n    return x\n", "assert c(1) == 1"),
        ("def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\n", "assert c(900) == 900"),
        ("def f(x):\n    return 'שלום 🙂'\n", "assert c(0) == 'שלום 🙂'"),
        ("calls = []\ndef f(x):\n    calls.append(x)\n    return len(calls)\n", "assert [c(0), c(0)] == [1, 2]"),
        ("import re, json, math, heapq\ndef f(x):\n    return math.gcd(*json.loads(x))\n", "assert c('[4, 6]') == 2"),
        ("def f(x):\n    return input()\n", "assert c.__name__ == 'f'"),
        ("if __name__ == '__main__':\n    raise SystemExit\ndef f(x):\n    return x\n", "assert c(1) == 1"),
        (
            "from concurrent.futures import ThreadPoolExecutor\ndef f(x):\n"
            "    with ThreadPoolExecutor(4) as threads:\n        return list(threads.map(abs, x))\n",
            "assert all(c([-1, 2] * 8) == [1, 2] * 8 for _ in range(30))",
        ),
        (
            "import asyncio\nasync def g(x):\n    await asyncio.sleep(0.001)\n"
            "    return await asyncio.to_thread(abs, x)\ndef f(x):\n    return asyncio.run(g(x))\n",
            "assert c(-1) == 1",
        ),
        (
            "import os, shutil, tempfile\nfrom pathlib import Path\ndef f(x):\n"
            "    with tempfile.TemporaryDirectory() as top:\n        Path(top, 'a').write_text(x)\n"
            "        shutil.copyfile(top + '/a', top + '/b')\n        os.replace(top + '/b', top + '/c')\n"
            "        return sorted(os.listdir(top)), Path(top, 'c').read_text(), Path(top, 'a').stat().st_size\n",
            "assert c('text') == (['a', 'c'], 'text', 4)",
        ),
        (
            "import sqlite3\ndef f(x):\n    with sqlite3.connect('data') as data:\n"
            "        data.execute('create table t(n)')\n        data.execute('insert into t values (?)', [x])\n"
            "    return data.execute('select n from t').fetchone()\n",
            "assert c(3) == (3,)",
        ),
        (
            "import signal, time\nclass Late(Exception): pass\ndef stop(*_): raise Late\ndef f(x):\n"
            "    signal.signal(signal.SIGALRM, stop)\n    signal.setitimer(signal.ITIMER_REAL, 0.02)\n"
            "    try:\n        time.sleep(5)\n    except Late:\n        return x\n",
            "assert c(1) == 1",
        ),
        (
            "import os, platform, resource, secrets, time, uuid\ndef f(x):\n    time.sleep(0.001)\n"
            "    return [bool(v) for v in (os.cpu_count(), os.getpid(), platform.system(), time.time(), uuid.uuid4(),\n"
            "            secrets.token_hex(), resource.getrlimit(resource.RLIMIT_AS), os.urandom(4), os.times())]\n",
            "assert c(1) == [True] * 9",
        ),
        (
            "import locale, colorsys, xml.dom.minidom\ndef f(x):\n"
            "    return xml.dom.minidom.parseString(x).documentElement.tagName\n",
            "assert c('<a/>') == 'a'",
        ),
    ],
    ids="prints stderr deep emoji global imports input main threads asyncio files database alarm machine rare".split(),
)
def test_honest_oddities_pass(pool: SandboxPool, solution: str, line: str) -> None:
    assert judged(pool, solution, line) == ("passed", 1, 1)


def test_64_threads_that_allocate_fit_into_the_usual_memory(pool: SandboxPool) -> None:
    solution = (
        "import threading\ndef f(count):\n    gate, done = threading.Barrier(count + 1), []\n"
        "    def work():\n        gate.wait()\n        done.append(sum(len(bytes(5_000)) for _ in range(100)))\n"
        "    threads = [threading.Thread(target=work) for _ in range(count)]\n"
        "    for thread in threads: thread.start()\n    gate.wait()\n"
        "    for thread in threads: thread.join()\n    return len(done)\n"
    )
    line = f"assert c({confine.MAX_THREADS - 1}) == {confine.MAX_THREADS - 1}"
    assert judged(pool, solution, line, limits=Limits()) == ("passed", 1, 1)


def test_one_program_leaves_nothing_for_the_next(pool: SandboxPool) -> None:
    pool.run([job("import builtins, math\nbuiltins.leftover = math.pi = 3\n" + IDENTITY, "assert c(1) == 1")])
    solution = "import builtins, math\ndef f(x):\n    return hasattr(builtins, 'leftover') or math.pi == 3\n"
    assert judged(pool, solution, "assert c(1) is False") == ("passed", 1, 1)


def test_every_program_has_an_empty_folder_of_its_own(pool: SandboxPool) -> None:
    solution = "import os\ndef f(x):\n    found = os.listdir()\n    open('mine', 'w').close()\n    return found\n"
    for _ in range(2):
        assert judged(pool, solution, "assert c(1) == []") == ("passed", 1, 1)


@pytest.mark.slow
def test_every_humaneval_reference_solution_passes_in_full() -> None:
    rows = [json.loads(line) for line in HUMANEVAL.read_text(encoding="utf-8").splitlines()]
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
    total = len(lines) + 1
    assert judged(pool, READS, f"assert c({str(readable)!r}) == 'bytes'", *lines) == ("passed", total, total)


@pytest.mark.skipif(bool(capabilities().missing), reason="files are not confined here")
def test_the_tests_of_our_task_sets_cannot_be_read_with_installed_packages_either(tmp_path: Path) -> None:
    installed = tmp_path / "llm_dec_pomdp" / "data" / HUMANEVAL.name
    other = tmp_path / "other" / HUMANEVAL.name
    for path in (installed, other):
        path.parent.mkdir(parents=True)
        shutil.copy(HUMANEVAL, path)
    with SandboxPool(workers=1, site=True) as pool:
        pool.site.append(str(tmp_path))
        hidden = [
            f"assert c({str(path)!r}) in ('PermissionError', 'FileNotFoundError')" for path in (installed, HUMANEVAL)
        ]
        assert judged(pool, READS, f"assert c({str(other)!r}) == 'bytes'", *hidden) == ("passed", 3, 3)
