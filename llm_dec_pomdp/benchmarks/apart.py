"""Where the cells of a suite run: each apart from the process that runs the suite, and able to tell it how far it is.

An executor runs one cell at a time for each thread that asks. Whatever ends a cell, its folder tells what came out.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from ..registries import Registry
from ..storage.files import replace_json
from ..storage.signals import stopping_at_once
from .cell import run_cell
from .progress import Advance, LogLines, Progress
from .suite import Cell, conflicts

cell_executors = Registry("executor of cells", group="llm_dec_pomdp.cell_executors")
cell_executors.register("processes", "llm_dec_pomdp.benchmarks.processes:Processes")
cell_executors.register("ray", "llm_dec_pomdp.benchmarks.on_ray:Ray")

STOPPED = "stopped by a signal, goes on with bench --resume"
Tell = Callable[[tuple[str | int, ...]], None]


class CellExecutor(Protocol):
    """Where cells run. A context manager: what it started ends with the block.

    Args:
        jobs: Cells at once on one machine, which share it.
        options: Further arguments of `run_cell`.

    Attributes:
        at_once: Cells that may be asked for at the same time.
    """

    at_once: int

    def __init__(self, jobs: int, options: dict[str, Any]) -> None: ...

    def run(self, cell: Cell, folder: Path, progress: Progress) -> None:
        """Run one cell, or what is missing of it; its folder then has `result.json`, or `failure.json`."""
        ...

    def stop(self) -> None:
        """Ask every running cell to finish its step, save, and end; those that wait do not begin."""
        ...

    def __enter__(self) -> CellExecutor: ...

    def __exit__(self, *exc: object) -> None: ...


# --- where the suite runs ---------------------------------------------------------------------------------------------


def make_room(cell: Cell, folder: Path) -> None:
    """Keep what an attempt at this cell left, for its checkpoints; remove that of another configuration."""
    description = folder / "cell.json"
    there = Cell.from_dict(json.loads(description.read_text(encoding="utf-8"))) if description.exists() else None
    if there is None or conflicts(there, cell):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        replace_json(description, cell.to_dict())
    for name in ("result.json", "failure.json"):
        (folder / name).unlink(missing_ok=True)


def note_failure(folder: Path, reason: str) -> None:
    """Why a cell has no result, unless it has one or says so itself."""
    if not (folder / "result.json").exists() and not (folder / "failure.json").exists():
        replace_json(folder / "failure.json", {"reason": reason})


class Shown:
    """Shows what a cell tells; stages that it left open when it ended are closed with the block."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stages: list[tuple[ExitStack, Advance]] = []

    def show(self, told: tuple[Any, ...]) -> None:
        """One thing that was told; see `Telling`."""
        match told:
            case ("begin", label, total):
                shown = ExitStack()
                self._stages.append((shown, shown.enter_context(self._progress.stage(label, total))))
            case ("advance", units, note):
                self._stages[-1][1](units, note)
            case ("say", text):
                self._progress.say(text)
            case _:
                self._stages.pop()[0].close()

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *exc: object) -> None:
        while self._stages:
            self._stages.pop()[0].close()


# --- where a cell runs ------------------------------------------------------------------------------------------------


def run_told(
    values: dict[str, Any], folder: Path, options: dict[str, Any], threads: int, tell: Tell, number: int
) -> None:
    """Run a cell, tell how far it is, and write why it failed where it does.

    Args:
        values: Of the cell.
        folder: Of the cell, which is there.
        options: Further arguments of `run_cell`.
        threads: To compute with; 0: as many as torch takes.
        tell: Takes what `Shown.show` shows.
        number: Of the signal that lets it finish its step, save, and end.

    Raises:
        Interrupted: That signal came.
    """
    progress = Telling(tell)
    lines = LogLines(progress.say)
    logging.getLogger("llm_dec_pomdp").addHandler(lines)
    try:
        if threads:
            import torch

            torch.set_num_threads(threads)
        with stopping_at_once(progress.say, [number]):
            run_cell(Cell.from_dict(values), folder, progress, **options)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        replace_json(folder / "failure.json", {"reason": reason, "traceback": traceback.format_exc()})
    finally:
        logging.getLogger("llm_dec_pomdp").removeHandler(lines)


class Telling:
    """Tells whoever runs the suite about stages."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def stage(self, label: str, total: int) -> Generator[Advance]:
        """A stage that is shown elsewhere."""
        self._send("begin", label, total)
        yield lambda units, note: self._send("advance", units, note)
        self._send("end")

    def say(self, text: str) -> None:
        """A line that is shown elsewhere."""
        self._send("say", text)

    def _send(self, *what: str | int) -> None:
        with self._lock:
            self._tell(what)
