"""Executors of cells: each cell runs in another process than the suite, which it tells about its progress.

An executor runs one cell at a time for each thread that asks. However a cell ends, its folder holds the outcome.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from ..progress import Advance, LogLines, Progress
from ..registries import Registry
from ..storage.files import replace_json
from ..storage.reading import is_there
from ..storage.signals import stopping_at_once
from .cell import run_cell
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
        """Ask every running cell to finish its step, save, and end; no further cell begins."""
        ...

    def __enter__(self) -> CellExecutor: ...

    def __exit__(self, *exc: object) -> None: ...


# --- where the suite runs ---------------------------------------------------------------------------------------------


def make_room(cell: Cell, folder: Path) -> None:
    """Prepare the folder of a cell: keep the checkpoints of an earlier attempt, unless its configuration differs."""
    description = folder / "cell.json"
    there = Cell.read(description) if is_there(description) else None
    if there is None or conflicts(there, cell):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        replace_json(description, cell.to_dict())
    for name in ("result.json", "failure.json"):
        (folder / name).unlink(missing_ok=True)


def note_failure(folder: Path, reason: str) -> None:
    """Write down why a cell has no result, unless it has one or wrote the reason itself."""
    if not (folder / "result.json").exists() and not (folder / "failure.json").exists():
        replace_json(folder / "failure.json", {"reason": reason})


class Shown:
    """Shows the progress that a cell tells. A context manager, which ends stages that the cell left open."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stages: list[tuple[ExitStack, Advance]] = []

    def show(self, told: tuple[Any, ...]) -> None:
        """Show one message of `Telling`."""
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
    """Run a cell, tell its progress, and write down why it fails where it does.

    Args:
        values: The cell, as plain values.
        folder: Its folder, which exists.
        options: Further arguments of `run_cell`.
        threads: Of torch; 0: its default.
        tell: Sends a message to `Shown.show`.
        number: The signal after which it finishes its step, saves, and ends.

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
    """Progress that is shown by the process that runs the suite."""

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
