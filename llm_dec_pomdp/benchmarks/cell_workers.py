"""Workers that run the cells of a suite, each in its own process, and send their progress to the suite.

The end of the process frees all memory of a cell. The files of a cell are in the folder of the benchmark, which all
machines must share. So if a worker is lost, another one resumes the cell from its newest checkpoint. In every case the
folder of the cell contains the outcome.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..progress import Advance, LogLines, Progress
from ..storage.files import replace_json
from ..storage.reading import is_there
from ..storage.runfolder import TRACEBACK, RunFolderError, write_traceback
from ..storage.signals import Interrupted, stopping_at_once
from ..training.workers import Transport, Worker, WorkerLostError, executors
from ..training.workers.base import STOP, until_done
from ..user_code import is_of_user, summary, user_traceback
from .cell import run_cell
from .suite import Cell, conflicts

STOPPED = "stopped by a signal; resume it with bench --resume"
Emit = Callable[[tuple[str | int, ...]], None]


def transport_of(executor: str) -> Callable[..., Transport]:
    """Return the class that starts the workers of an executor.

    Raises:
        ValueError: The executor has no workers.
    """
    transport: Any = executors.find(executor).load()
    if not isinstance(transport, type) or not issubclass(transport, Transport):
        raise ValueError(f"executor {executor!r} cannot run the cells of a suite; give processes or ray")
    return transport


# --- where the suite runs ---------------------------------------------------------------------------------------------


class CellWorkers:
    """A pool that runs one cell for each thread that calls `run`.

    Args:
        transport: Starts the worker of each cell.
        jobs: Number of cells at the same time on each machine.
        options: Further arguments of `run_cell`.

    Attributes:
        at_once: Number of cells at the same time on all machines.
    """

    def __init__(self, transport: Transport, jobs: int, options: dict[str, Any]) -> None:
        self._transport, self._options = transport, options
        self.at_once, self._resources = transport.share(jobs)
        self._running: set[Worker] = set()
        self._stopped = False

    def run(self, cell: Cell, folder: Path, progress: Progress) -> None:
        """Run one cell, or the missing part of it; its folder then has `result.json` or `failure.json`.

        Raises:
            RunFolderError: The machine of the worker cannot see the folder.
        """
        make_room(cell, folder)
        reason = STOPPED

        def warn(lost: WorkerLostError) -> None:
            progress.say(f"{lost}; the run is restarted from its newest checkpoint")

        try:
            until_done(lambda: self._attempt(cell, folder, progress), warn)
        except WorkerLostError as lost:
            reason = str(lost)
        if not (folder / "result.json").exists() and not (folder / "failure.json").exists():
            replace_json(folder / "failure.json", {"reason": reason})

    def _attempt(self, cell: Cell, folder: Path, progress: Progress) -> None:
        if self._stopped:
            return
        worker = self._transport.start(f"the worker of {cell.label}", CellWorker, self._resources)
        self._running.add(worker)
        if self._stopped:
            worker.stop()
        try:
            with ProgressOfCell(progress) as display:
                worker.call(
                    "run",
                    cell.to_dict(),
                    str(folder.absolute()),
                    self._options,
                    str(Path.cwd()),
                    on_message=display.show,
                )
        except WorkerLostError:
            if not self._stopped:
                raise
        finally:
            self._running.discard(worker)
            worker.end()

    def stop(self) -> None:
        """Signal every running cell to finish its step, save a checkpoint and end; start no further cell."""
        self._stopped = True
        for worker in list(self._running):
            worker.stop()


def make_room(cell: Cell, folder: Path) -> None:
    """Prepare the folder of a cell; keep the checkpoints of an earlier attempt if its configuration is the same."""
    description = folder / "cell.json"
    there = Cell.read(description) if is_there(description) else None
    if there is None or conflicts(there, cell):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        replace_json(description, cell.to_dict())
    for name in ("result.json", "failure.json", TRACEBACK):
        (folder / name).unlink(missing_ok=True)


class ProgressOfCell:
    """A context manager that shows the progress messages of a cell, and closes the stages that it left open."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stages: list[tuple[ExitStack, Advance]] = []

    def show(self, message: tuple[Any, ...]) -> None:
        """Show one message of `ProgressMessages`."""
        match message:
            case ("begin", label, total, done):
                stage = ExitStack()
                self._stages.append((stage, stage.enter_context(self._progress.stage(label, total, done))))
            case ("advance", units, note):
                self._stages[-1][1](units, note)
            case ("say", text):
                self._progress.say(text)
            case _:
                self._stages.pop()[0].close()

    def __enter__(self) -> ProgressOfCell:
        return self

    def __exit__(self, *exc: object) -> None:
        while self._stages:
            self._stages.pop()[0].close()


# --- where a cell runs ------------------------------------------------------------------------------------------------


class CellWorker:
    """The worker that runs a cell in its own process."""

    def run(self, values: dict[str, Any], folder: str, options: dict[str, Any], place: str, emit: Emit) -> None:
        """Run a cell, send its progress, and write the reason if it fails; after `STOP`, save a checkpoint and end.

        Args:
            values: The cell, as plain values.
            folder: Folder of the cell, which exists.
            options: Further arguments of `run_cell`.
            place: Folder to which paths in a suite are relative.
            emit: Sends a message to `ProgressOfCell.show`.

        Raises:
            RunFolderError: The folder is not on this machine.
        """
        if not (Path(folder) / "cell.json").is_file():
            raise RunFolderError(
                f"{folder!r} does not exist on {os.uname().nodename}; give --out a folder that all machines share"
            )
        os.chdir(place)
        progress = ProgressMessages(emit)
        logging.getLogger("llm_dec_pomdp").addHandler(LogLines(progress.say))
        try:
            with contextlib.suppress(Interrupted), stopping_at_once(progress.say, [STOP]):
                run_cell(Cell.from_dict(values).loaded(), Path(folder), progress, **options)
        except Exception as error:
            write_traceback(Path(folder), error)
            if is_of_user(error):
                progress.say(f"{values['environment']['id']}: {user_traceback(error)}")
            replace_json(Path(folder) / "failure.json", {"reason": summary(error)})


class ProgressMessages:
    """Progress as messages to the process that runs the suite, which shows them."""

    def __init__(self, emit: Emit) -> None:
        self._tell = emit
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def stage(self, label: str, total: int, done: int = 0) -> Generator[Advance]:
        """Send the begin and end of a stage, and return the function that sends its progress."""
        self._send("begin", label, total, done)
        yield lambda units, note: self._send("advance", units, note)
        self._send("end")

    def say(self, text: str) -> None:
        """Send a line."""
        self._send("say", text)

    def _send(self, *message: str | int) -> None:
        with self._lock:
            self._tell(message)
