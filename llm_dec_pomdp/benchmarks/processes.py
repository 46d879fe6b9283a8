"""Cells in processes on this machine.

They are forked from a process that has imported torch and started nothing. So a cell needs no import of its own, its
end frees all of its memory, and it can be killed alone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..progress import Progress
from ..storage.signals import Interrupted, exit_reason
from .executors import STOPPED, Shown, make_room, note_failure, run_told
from .suite import Cell

_PRELOAD = ["torch", "transformers", "peft", "llm_dec_pomdp.benchmarks.cell"]


class Processes:
    """A process of its own for each cell; see `CellExecutor`."""

    def __init__(self, jobs: int, options: dict[str, Any]) -> None:
        self.at_once = max(jobs, 1)
        self._threads = max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else 0
        self._options = options
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOAD)
        self._running: set[Any] = set()
        self._stopped = False

    def run(self, cell: Cell, folder: Path, progress: Progress) -> None:
        """See `CellExecutor`."""
        make_room(cell, folder)
        ours, theirs = self._context.Pipe(duplex=False)
        arguments = (cell.to_dict(), str(folder), self._options, self._threads, theirs)
        process = self._context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        self._running.add(process)
        theirs.close()
        if self._stopped:
            process.terminate()
        with Shown(progress) as shown, contextlib.suppress(EOFError, OSError):
            while True:
                shown.show(ours.recv())
        process.join()
        self._running.discard(process)
        code = process.exitcode or 0
        note_failure(folder, STOPPED if code == Interrupted.CODE else f"its process ended with {exit_reason(code)}")

    def stop(self) -> None:
        """See `CellExecutor`."""
        self._stopped = True
        for process in list(self._running):
            process.terminate()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exc: object) -> None:
        """Each process ended with its cell."""


def _work(values: dict[str, Any], folder: str, options: dict[str, Any], threads: int, said: Connection) -> None:
    """In the process."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all its processes; the runner passes it on
    run_told(values, Path(folder), options, threads, said.send, signal.SIGTERM)


def _leave_with_parent() -> None:
    """A cell must not outlive its runner: another one may take its folder."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
