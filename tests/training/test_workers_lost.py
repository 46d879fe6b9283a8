"""Workers that are killed, and drivers that end: a run ends as if nothing had happened, and nobody is left."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from placing import Watched, hierarchy, newest_step, ran, started
from waiting import left_of, wait_until

from llm_dec_pomdp.training.checkpoint import read_checkpoint
from llm_dec_pomdp.training.workers import WorkerLostError, base
from llm_dec_pomdp.training.workers.process import Processes

POINTS = 2


def kill(worker: Any) -> None:
    os.kill(worker._process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_worker_that_dies_when_the_other_has_stepped_changes_nothing(
    whole: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    improved: list[str] = []

    def act(number: int, worker: Any, method: str) -> None:
        if method == "step":
            improved.append(worker.name)
            if len(improved) == 8:  # step 4, of which main has done its own; the checkpoint is that of step 2
                kill(worker)

    watched = Watched(monkeypatch, act)
    with caplog.at_level(logging.WARNING):
        assert ran(hierarchy(), tmp_path) == whole
    assert improved[6] != improved[7]
    assert len(improved) == 8 + 2 * 4
    assert "ended with signal SIGKILL (often: out of memory); all workers are restarted" in caplog.text
    assert watched.alive == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(POINTS))
def test_kill_9_of_any_worker_at_a_random_point_changes_nothing(
    seed: int, whole: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While it loads, plays, learns, is saved or evaluated; during its own work, or that of the other one."""
    chance = random.Random(seed)
    point = chance.randrange(1, 150)  # of some 170 messages

    def act(number: int, worker: Any, method: str) -> None:
        if number == point:
            victim = chance.choice(watched.workers)
            time.sleep(chance.uniform(0, 0.01))
            kill(victim)

    watched = Watched(monkeypatch, act)
    with caplog.at_level(logging.WARNING):
        assert ran(hierarchy(), tmp_path) == whole
    assert caplog.text.count("all workers are restarted") == 1
    assert watched.alive == []


@pytest.mark.slow
def test_workers_that_die_again_and_again_end_the_run_and_not_its_checkpoint(
    whole: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "RESTARTS", 1)
    steps: list[int] = []

    def act(number: int, worker: Any, method: str) -> None:
        steps.extend([number] if method == "step" else [])
        if len(steps) > 4:
            kill(worker)

    with monkeypatch.context() as patched:
        watched = Watched(patched, act)
        with pytest.raises(WorkerLostError, match="this run has lost 2 workers, so it stops"):
            ran(hierarchy(), tmp_path)
        assert watched.alive == []
    assert [read_checkpoint(folder).step for folder in (tmp_path / "checkpoints").iterdir()] == [2]
    assert ran(hierarchy(), tmp_path, "local") == whole


@pytest.mark.slow
def test_workers_end_with_the_block_that_started_them(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, lambda *what: None)
    with pytest.raises(ZeroDivisionError), Processes() as executor:
        executor.load_team(["agent_0", "agent_1"], "builtin:table", menus={"agent_0": ("a",), "agent_1": ("b",)})
        assert len(watched.alive) == 2
        raise ZeroDivisionError
    assert watched.alive == []


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see processes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_driver_that_ends_leaves_no_process(number: signal.Signals, tmp_path: Path) -> None:
    """SIGTERM goes to the workers, too, as schedulers do it, and the driver finishes its step and saves."""
    process = started(tmp_path / "run", 500)
    assert len(left_of(process.pid)) >= 3
    if number == signal.SIGTERM:
        os.killpg(process.pid, number)
        assert process.wait(60) == 75
        assert newest_step(tmp_path / "run") == max((tmp_path / "run").glob("cells/*/checkpoints/*")).name
    else:
        process.kill()
        process.wait(60)
    wait_until(lambda: not left_of(process.pid))
