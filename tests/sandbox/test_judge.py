"""The judge without its process: summing up what became of each case, its wire, and whole jobs with a real zygote."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from waiting import wait_until

from llm_dec_pomdp.sandbox import capabilities
from llm_dec_pomdp.sandbox import judge as judge_module
from llm_dec_pomdp.sandbox.judge import JudgeLoop, Record, explain, judge, read_frame, slowness, verdict, write_frame
from llm_dec_pomdp.sandbox.rewrite import rewrite_check
from llm_dec_pomdp.sandbox.solution import OverError, Solution, UnsupportedError, Zygote, ZygoteLostError


class Idle:
    """A program that is never called."""

    def begin_case(self) -> None:
        pass


def record(*results: bool, asserts: int = 2, over: str = "", **flags: Any) -> Record:
    built = Record(cast(Solution, Idle()), 1.0, rewrite_check("assert c(1) == 1\n" * asserts))
    built.loaded = built.done = True
    for number, holds in enumerate(results):
        built.case(None, holds, number)
    built.over = OverError(over, "why") if over else None
    for name, value in flags.items():
        setattr(built, name, value)
    return built


@pytest.mark.parametrize(
    ("built", "outcome", "cases"),
    [
        (record(True, True), "passed", [True, True]),
        (record(True, False), "failed", [True, False]),
        (record(True, over="died"), "died", [True, False]),
        (record(True, over="timeout"), "timeout", [True, False]),
        (record(True, True, over="died"), "died", [True, True, False]),
        (record(True, done=False), "died", [True, False]),
        (record(True, timed_out=True, done=False), "timeout", [True, False]),
        (record(loaded=False, done=False, error="NameError: x"), "load_error", [False, False]),
        (record(loaded=False, done=False, over="died"), "died", [False, False]),
        (record(loaded=False, done=False, timed_out=True), "timeout", [False, False]),
        (record(True, False, unsupported=True), "unsupported", [True, False]),
        (record(True, True, unsupported=True), "passed", [True, True]),
    ],
)
def test_what_was_not_reached_counts_as_failed(built: Record, outcome: str, cases: list[bool]) -> None:
    found = verdict(built)
    assert (found["outcome"], found["cases"], found["passed"]) == (outcome, cases, sum(cases))
    assert found["total"] == len(cases)


def test_nothing_to_count_is_not_passed() -> None:
    assert verdict(record(asserts=0))["outcome"] == "failed"


def test_no_case_holds_once_the_program_is_over() -> None:
    built = record(over="died")
    built.tests.statements.append((built.tests.tree.body[0], range(0)))
    late_calls = (built.start, lambda: built.case(None, True, 0), lambda: built.broke(ValueError(), 0), built.call)
    for late in late_calls:
        with pytest.raises(OverError):
            late()
    assert built.cases == []


def test_a_refused_result_makes_the_outcome_unsupported() -> None:
    built = record(True)
    built.failed(UnsupportedError("Thing is no plain value"), 1)
    assert verdict(built)["outcome"] == "unsupported"
    assert built.notes == ["c(1) == 1: UnsupportedError: Thing is no plain value"]


def test_a_frame_survives_the_wire() -> None:
    stream = io.BytesIO()
    write_frame(stream, {"text": "\ud800 ü"})
    stream.seek(0)
    assert read_frame(stream) == {"text": "\ud800 ü"}
    assert read_frame(stream) is None


def test_an_explanation_survives_a_hostile_message() -> None:
    class Hostile(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise ValueError

    assert explain(Hostile()) == "Hostile"
    assert len(explain(ValueError("x" * 10_000))) <= 200
    noted = ValueError("x")
    noted.program_note = "Mine: x \ud800"  # type: ignore[attr-defined]
    json.dumps(explain(noted)).encode()
    assert explain(noted).startswith("Mine: x")


def test_slowness_is_a_factor_between_one_and_four() -> None:
    assert 1.0 <= slowness() <= 4.0


# --- whole jobs, in this process --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    before = signal.signal(signal.SIGPROF, judge_module._on_case_timeout)
    started = Zygote(str(tmp_path_factory.mktemp("zygote")), [], list(capabilities().working))
    started.open()
    with pytest.MonkeyPatch.context() as patch:  # this process has threads of other tests, which use CPU meanwhile
        patch.setattr(judge_module, "cpu_limit", lambda seconds: contextlib.nullcontext())
        yield started
    started.close()
    signal.signal(signal.SIGPROF, before)


def job(solution: str, *lines: str, cpu: float = 0.4) -> dict[str, Any]:
    return {
        "solution": solution,
        "check": "def check(c):\n" + "".join(f"    {line}\n" for line in lines),
        "entry_point": "f",
        "prelude": "",
        "limits": {"cpu_seconds": cpu, "case_seconds": 0.2, "memory_mb": 256},
        "trust": "strict",
    }


def stay() -> bool:
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "sleeps",
    [
        "time.sleep(x)",
        "while x:\n        time.sleep(0.01)",
        "threading.Event().wait(x)",
    ],
)
def test_a_case_in_which_a_program_sleeps_ends_as_one_in_which_it_computes(zygote: Zygote, sleeps: str) -> None:
    lines = ["assert c(3600) is None", "assert c(0) is None"]
    found = judge(job(f"import threading, time\ndef f(x):\n    {sleeps}\n", *lines), zygote, 1.0, stay)
    assert (found["outcome"], found["cases"], found["starved"]) == ("failed", [False, True], False)


@pytest.mark.slow
def test_a_program_that_sleeps_in_every_case_uses_up_its_time(zygote: Zygote) -> None:
    solution = "import time\ndef f(x):\n    time.sleep(3600)\n"
    found = judge(job(solution, *["assert c(1)"] * 50), zygote, 1.0, stay)
    assert (found["outcome"], found["cases"]) == ("timeout", [False] * 50)


@pytest.mark.slow
def test_a_program_that_sleeps_while_it_is_loaded_is_a_timeout(zygote: Zygote) -> None:
    found = judge(job("import time\ntime.sleep(3600)\n", "assert c(1)", cpu=60.0), zygote, 1.0, stay)
    assert found["outcome"] == "timeout"


@pytest.mark.slow
def test_time_that_a_program_waits_for_a_core_does_not_count(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Zygote, "waited", lambda self: 60.0)
    solution = "import time\ndef f(x):\n    time.sleep(3)\n    return x\n"
    assert judge(job(solution, "assert c(1)", cpu=10.0), zygote, 1.0, stay)["outcome"] == "passed"


def test_nothing_matters_once_the_caller_has_gone(zygote: Zygote) -> None:
    found = judge(job("import time\ndef f(x):\n    time.sleep(60)\n", "assert c(1)"), zygote, 1.0, lambda: True)
    assert found["outcome"] == "infra_error"


def test_a_zygote_that_was_lost_is_told_from_a_program_that_died(zygote: Zygote) -> None:
    zygote.spawn(1 << 28, 2)[0].close()
    zygote.end()
    assert zygote.alive()
    os.kill(zygote.pid, signal.SIGKILL)
    wait_until(lambda: not zygote.alive())
    with pytest.raises(ZygoteLostError) as lost:
        judge(job("def f(x):\n    return x\n", "assert c(1)"), zygote, 1.0, stay)
    assert lost.value.ours
    zygote.replace()
    assert judge(job("def f(x):\n    return x\n", "assert c(1)"), zygote, 1.0, stay)["outcome"] == "passed"


def test_a_program_that_cannot_be_confined_is_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    options = {"root": str(tmp_path), "parent": os.getppid(), "site": [], "layers": ["landlock"], "core": None}
    this = JudgeLoop(options)
    this.zygote._options["folder"] = str(tmp_path / "no such folder")
    this.zygote.open()
    answer = this.answer(job(f"open({str(marker)!r}, 'w')\n", "assert c(1)"), 1.0)
    this.zygote.close()
    assert answer["outcome"] == "infra_error"
    assert not marker.exists()
