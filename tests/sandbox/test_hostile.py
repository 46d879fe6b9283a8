"""The hostile programs of tests/sandbox/hostile, with every layer of confinement and with each switched off."""

from __future__ import annotations

import dataclasses
import gc
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_dec_pomdp.sandbox import Job, SandboxPool, capabilities, confine, doctor
from llm_dec_pomdp.sandbox.doctor import CHECK, GOLD, LIMITS, WRONG, Bait, Program, attempt, bait, programs

PROGRAMS = programs()
named = {"argvalues": PROGRAMS, "ids": [program.name for program in PROGRAMS]}
# One of every kind of attack on the verdict: what is tried with a layer missing where the whole would take too long.
SAMPLE = (
    "always_equal exit_at_import forged_frames frame_walk_expected patch_codec printed_verdict settrace_jump "
    "fork_bomb daemon memory_map disk_many_files deep_folders kill_parent read_secret tcp shared_memory"
).split()

confined = pytest.mark.skipif(bool(capabilities().missing), reason=capabilities().missing or "confined")


@pytest.fixture(scope="module")
def laid() -> Iterator[Bait]:
    with bait() as bait_:
        yield bait_


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(1) as shared:
        yield shared


@pytest.fixture(scope="module")
def weaker() -> Iterator[dict[tuple[str, ...], SandboxPool]]:
    """Pools with layers switched off, made when first asked for."""
    pools: dict[tuple[str, ...], SandboxPool] = {}
    yield pools
    for made in pools.values():
        made.close()


def without(pools: dict[tuple[str, ...], SandboxPool], *layers: str) -> SandboxPool:
    if layers not in pools:
        pools[layers] = SandboxPool(1, allow_weak=True, without=layers)
    return pools[layers]


def test_every_category_has_many_programs() -> None:
    assert len(PROGRAMS) >= 70
    counts = {category: sum(p.category == category for p in PROGRAMS) for category in ("lies", "resources", "escapes")}
    assert sum(counts.values()) == len(PROGRAMS)
    assert min(counts.values()) >= 20


def test_the_yardsticks_are_right(pool: SandboxPool) -> None:
    good, wrong = pool.run([Job(GOLD, CHECK, "f"), Job(WRONG, CHECK, "f", limits=LIMITS)])
    assert (good.outcome, good.cases) == ("passed", (True,) * 4)
    assert (wrong.outcome, wrong.cases) == ("failed", (False,) * 4)


@confined
@pytest.mark.parametrize("program", **named)
def test_held_off(program: Program, pool: SandboxPool, laid: Bait) -> None:
    """The reward of a wrong program, a good one judged right after, nothing left behind, in time."""
    finding = attempt(pool, program, laid)
    assert finding.problems == ()
    assert finding.verdict.outcome in program.expect
    assert finding.verdict.cases == (False,) * 4


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.name in SAMPLE], ids=lambda p: p.name)
@pytest.mark.parametrize("layer", confine.LAYERS)
def test_no_false_pass_without(
    layer: str, program: Program, weaker: dict[tuple[str, ...], SandboxPool], laid: Bait
) -> None:
    assert attempt(without(weaker, layer), program, laid).problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("layer", confine.LAYERS)
def test_no_false_pass_without_and_nothing_left(
    layer: str, weaker: dict[tuple[str, ...], SandboxPool], laid: Bait
) -> None:
    pool = without(weaker, layer)
    problems = {p.name: (attempt(pool, p, laid).problems, laid.left(pool)) for p in PROGRAMS if p.name not in SAMPLE}
    assert {name: found for name, found in problems.items() if found != ((), [])} == {}


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.category == "lies"], ids=lambda p: p.name)
def test_no_lie_passes_without_any_layer(
    program: Program, weaker: dict[tuple[str, ...], SandboxPool], laid: Bait
) -> None:
    assert attempt(without(weaker, *confine.LAYERS), program, laid).problems == ()


# --- the doctor itself ------------------------------------------------------------------------------------------------


def test_the_doctor_sees_a_false_pass(pool: SandboxPool, laid: Bait) -> None:
    right = Program("right", "", "lies", ("failed",), GOLD)
    assert attempt(pool, right, laid).problems == (
        "earned 4 of 4 where a wrong program earns 0 of 4",
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
    time.sleep(0.2)
    [trace] = laid.traces(pool)
    assert trace.startswith("process ")
    os.kill(int(trace.split()[1]), signal.SIGKILL)
    time.sleep(0.1)
    assert laid.traces(pool) == []


def test_escapes_are_not_tried_where_nothing_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    unable = dataclasses.replace(capabilities(), layers=dict.fromkeys(confine.LAYERS, "missing"))
    monkeypatch.setattr("llm_dec_pomdp.sandbox.pool.capabilities", lambda: unable)
    chosen = [p for p in PROGRAMS if p.name in ("tcp", "always_equal")]
    assert [(f.program.name, f.verdict.weak, f.problems) for f in doctor.examine(chosen)] == [
        ("always_equal", True, ())
    ]


def test_a_folder_without_programs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no hostile programs"):
        programs(tmp_path)
