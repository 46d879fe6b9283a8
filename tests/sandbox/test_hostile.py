"""The hostile programs of the package: all of them with every layer of confinement, and with each switched off."""

from __future__ import annotations

import dataclasses
import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from waiting import wait_until

from llm_dec_pomdp.sandbox import Job, SandboxPool, capabilities, confine
from llm_dec_pomdp.sandbox.doctor import (
    CHECK,
    GOLD,
    LIMITS,
    MODULES_CHECK,
    WRONG,
    Bait,
    Program,
    attempt,
    bait,
    examine,
    programs,
)

PROGRAMS = programs()

confined = pytest.mark.skipif(bool(capabilities().missing), reason=capabilities().missing or "confined")


@pytest.fixture(scope="module")
def laid() -> Iterator[Bait]:
    with bait() as bait_:
        yield bait_


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(1) as shared:
        yield shared


def test_every_category_has_many_programs() -> None:
    assert len(PROGRAMS) >= 70
    counts = Counter(program.category for program in PROGRAMS)
    assert counts.keys() == {"lies", "resources", "escapes", "tasks", "modules"}
    assert counts.pop("tasks") >= 4
    assert min(counts.values()) >= 20


def test_the_yardsticks_are_right(pool: SandboxPool) -> None:
    good, wrong = pool.run([Job(GOLD, CHECK, "f"), Job(WRONG, CHECK, "f", limits=LIMITS)])
    assert (good.outcome, good.cases) == ("passed", (True,) * 4)
    assert (wrong.outcome, wrong.cases) == ("failed", (False,) * 4)


BOX = """
class Box:
    def __init__(self, size):
        self.items = {}
    def add(self, number):
        return 4242
    def sealed(self, number):
        return "q7"
    def ratio(self, number):
        return 11.75
    def words(self, text):
        return ["xee"] * 17
    def put(self, name, given):
        self.items[name] = [*given, 77]
        given.append(9)
"""


def test_the_yardstick_of_modules_is_right(pool: SandboxPool) -> None:
    [good] = pool.run([Job("", MODULES_CHECK, "", modules=(("solution.py", BOX),))])
    assert (good.outcome, good.cases) == ("passed", (True,) * 4)


@confined
@pytest.mark.parametrize(
    "tried",
    [PROGRAMS[::8], pytest.param([p for n, p in enumerate(PROGRAMS) if n % 8], marks=pytest.mark.slow)],
    ids=["every eighth", "the others"],
)
def test_every_program_is_held_off(tried: Sequence[Program]) -> None:
    """The reward of a wrong program, a good one judged right after, nothing left behind, in time."""
    found = examine(tried)
    assert found.problems == {}
    assert found.not_tried == ()
    unexpected = {f.program.name: f.verdict for f in found.findings if f.verdict.outcome not in f.program.expect}
    assert unexpected == {}
    assert {f.verdict.cases for f in found.findings if f.program.category != "tasks"} == {(False,) * 4}


@confined
@pytest.mark.slow
@pytest.mark.parametrize("layer", confine.LAYERS)
def test_no_false_pass_and_nothing_left_without(layer: str) -> None:
    found = examine(PROGRAMS, [layer])
    assert found.problems == {}
    assert found.counts == {"false_passes": 0, "escapes": 0, "broken_workers": 0}
    assert len(found.findings) + len(found.not_tried) == len(PROGRAMS)


@pytest.mark.slow
def test_no_lie_passes_without_any_layer() -> None:
    lies = [program for program in PROGRAMS if program.category in ("lies", "modules")]
    assert examine(lies, confine.LAYERS).problems == {}


# --- the doctor itself ------------------------------------------------------------------------------------------------


def test_the_doctor_sees_a_false_pass(pool: SandboxPool, laid: Bait) -> None:
    right = Program("right", "", "lies", ("failed",), GOLD)
    assert attempt(pool, right, laid).problems == (
        "passed 4 of 4 asserts, but a wrong program passes 0 of 4",
        "outcome passed",
    )


@pytest.mark.filterwarnings("ignore")  # of sockets that the programs leave open
def test_the_doctor_sees_what_was_reached(pool: SandboxPool, laid: Bait) -> None:
    for name in ("tcp", "udp", "abstract_socket", "write_outside", "chmod_outside"):
        [program] = [p for p in PROGRAMS if p.name == name]
        scope: dict[str, object] = {}
        exec(laid.fill(program.source), scope)
        scope["f"](1)  # type: ignore[operator]
    gc.collect()
    assert sorted(laid.traces(pool)) == [
        "a TCP port was reached",
        "a UDP port was reached",
        "a file of the user was changed",
        "an abstract socket was reached",
        "escaped was written outside",
    ]
    assert laid.traces(pool) == []


def test_the_doctor_sees_a_process_left(pool: SandboxPool, laid: Bait) -> None:
    pool.run([Job(GOLD, CHECK, "f")])
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os.execv("/bin/sleep", ["sleep", "31536"])
        os._exit(0)
    os.waitpid(pid, 0)
    traces: list[str] = []
    wait_until(lambda: traces.extend(laid.traces(pool)) or traces)
    [trace] = traces
    assert trace.startswith("process ")
    os.kill(int(trace.split()[1]), signal.SIGKILL)
    wait_until(lambda: laid.traces(pool) == [])


def test_escapes_are_not_tried_where_nothing_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    unable = dataclasses.replace(capabilities(), layers=dict.fromkeys(confine.LAYERS, "missing"))
    monkeypatch.setattr("llm_dec_pomdp.sandbox.pool.capabilities", lambda: unable)
    found = examine([p for p in PROGRAMS if p.name in ("tcp", "task_connects", "always_equal")])
    assert [(f.program.name, f.verdict.weak, f.problems) for f in found.findings] == [("always_equal", True, ())]
    assert found.not_tried == ("task_connects", "tcp")


def test_a_folder_without_programs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no hostile programs"):
        programs(tmp_path)
