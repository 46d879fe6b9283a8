"""Small runs to be placed on executors, and what came of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evaluated import last_episodes
from waiting import wait_until

from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.suite import Cell, Suite
from llm_dec_pomdp.config import build
from llm_dec_pomdp.storage.runfolder import read_lines
from llm_dec_pomdp.training.workers import Transport, Worker
from llm_dec_pomdp.training.workers.base import OnMessage, Resources
from llm_dec_pomdp.training.workers.process import ProcessWorker

TIMES = {"seconds", "seconds_rollout", "seconds_update", "tokens_per_second", "response_seconds", "parallelism"}


def cell(
    environment: dict[str, Any],
    method: dict[str, Any],
    model: dict[str, Any],
    steps: int,
    tokens: int = 1,
    **training: Any,
) -> Cell:
    """A small training with a checkpoint and an evaluation after every second step."""
    values = {
        "name": "placed",
        "environments": [environment],
        "methods": [method],
        "models": [{"device": "cpu", **model}],
        "sampling": {"max_new_tokens": tokens},
        "training": {"steps": steps, "prompts_per_step": 2, "group_size": 3, "save_every": 2, **training},
        "evaluation": {"items": 2, "every": 2},
    }
    [only] = build(Suite, values, source="test").cells()
    return only


def hierarchy(steps: int = 6) -> Cell:
    """Main and sub-agents with a small model each, who learn in every step: imitation, then M-GRPO."""
    cold = {"name": "imitation", "steps": 2, "options": {"source": "script:uniform"}}
    keys = {"id": "keys-v0", "options": {"delegations": 2, "entities": 4}}
    method = {"name": "mgrpo", "stages": [cold]}
    return cell(keys, method, {"name": "builtin:words"}, steps, prompts_per_step=4, group_size=24)


def outcome(folder: Path) -> dict[str, Any]:
    """Every number and text of a run, but for times: metrics, curve, evaluated episodes, weights, all that is saved."""
    lines = {name: [_timeless(line) for line in read_lines(folder / name)] for name in ("train.jsonl", "curve.jsonl")}
    newest = max((folder / "checkpoints").glob("step-*"))
    files = {
        f"{place.name}/{path.relative_to(place)}": path.read_bytes()
        for place in (folder / "team", newest)
        for path in sorted([*place.rglob("*.safetensors"), *place.rglob("state.json")])
    }
    return {**lines, **files, "episodes": last_episodes(folder)}


def ran(of: Cell, folder: Path, executor: str = "processes") -> dict[str, Any]:
    """What came of a cell on an executor."""
    run_cell(of, folder, tracking=(), executor=executor)
    return outcome(folder)


def _timeless(value: Any) -> Any:
    """Nested values without times."""
    if isinstance(value, dict):
        return {name: _timeless(inner) for name, inner in value.items() if name not in TIMES}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


COMMAND = (
    "train keys-v0 --algorithm mgrpo --model builtin:words --device cpu --env delegations=2 --env entities=4 --seed 1 "
    "--prompts 2 --group-size 3 --max-new-tokens 1 --items 2"
)


def started(folder: Path, steps: int, executor: str = "processes") -> subprocess.Popen[bytes]:
    """The command, in a group of its own, once it has done a step."""
    code = "from llm_dec_pomdp.cli import main; main()"
    options = ["--executor", executor, "--steps", str(steps), "--out", str(folder)]
    command = [sys.executable, "-c", code, *COMMAND.split(), *options]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    wait_until(lambda: any(lines.read_text() for lines in folder.glob("cells/*/train.jsonl")), process)
    return process


def newest_step(folder: Path) -> str:
    """The name of a checkpoint of the last step that a run of one cell has done."""
    [lines] = folder.glob("cells/*/train.jsonl")
    return f"step-{read_lines(lines)[-1]['number']:06d}"


class Watched:
    """Sees every message to every worker, before it is answered.

    Args:
        monkeypatch: Undoes it.
        act: Called after each message with its number, the worker that it went to and the method that it calls.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[int, Any, str], None]) -> None:
        self.workers: list[Any] = []
        self.messages = 0
        real = ProcessWorker._send  # pyright: ignore[reportPrivateUsage]

        def send(worker: Any, method: str, *arguments: Any, heard: bool = False) -> None:
            if worker not in self.workers:
                self.workers.append(worker)
            real(worker, method, *arguments, heard=heard)
            self.messages += 1
            act(self.messages, worker, method)

        monkeypatch.setattr(ProcessWorker, "_send", send)  # pyright: ignore[reportPrivateUsage]

    @property
    def alive(self) -> list[Any]:
        """The workers that have not ended."""
        return [worker for worker in self.workers if worker._process.is_alive()]


class Here(Worker):
    """A worker in this process, which notes its calls."""

    def __init__(self, name: str, build: Callable[[], Any]) -> None:
        super().__init__(name)
        self.worker = build()
        self.asked: list[tuple[str, Any]] = []

    def call(self, method: str, *arguments: Any, on_message: OnMessage | None = None) -> Any:
        self.asked.append((method, arguments))
        return getattr(self.worker, method)(*arguments)

    def stop(self) -> None:
        self.end()

    def end(self) -> None:
        self.asked.clear()


class Nearby(Transport):
    """Workers in this process."""

    def start(self, name: str, build: Callable[[], Any], needs: Resources) -> Here:
        return Here(name, build)

    def share(self, jobs: int) -> tuple[int, Resources]:
        return jobs, Resources()
