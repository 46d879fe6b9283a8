# pyright: basic
"""Cells as tasks of Ray, on this machine or on a cluster.

A task has a process of its own and a share of a machine: its cores and GPUs divided by `jobs`. Its files go to the
folder of the run, which all machines have to share. So a cell whose process or machine is lost runs again, here or
elsewhere, and goes on from its newest checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from pathlib import Path
from typing import Any

import ray  # pyright: ignore[reportMissingImports]
from ray.exceptions import (  # pyright: ignore[reportMissingImports]
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    TaskCancelledError,
    WorkerCrashedError,
)
from ray.util.queue import Queue  # pyright: ignore[reportMissingImports]
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # pyright: ignore[reportMissingImports]

from ..progress import Progress, Silent
from ..storage.runfolder import RunFolderError
from ..storage.signals import Interrupted
from ..training.executors.base import RESTARTS
from ..training.executors.on_ray import join, machine
from .executors import STOPPED, Shown, make_room, note_failure, run_told
from .suite import Cell

_AT_ONCE = 256  # tasks that are handed to Ray, which knows how many it can run
_LOST = (WorkerCrashedError, NodeDiedError, ObjectLostError, OutOfMemoryError)


class Ray:
    """A task for each cell; see `CellExecutor`.

    `address` is that of a cluster; left out: RAY_ADDRESS, or Ray on this machine, which then ends with the block.
    """

    at_once = _AT_ONCE

    def __init__(self, jobs: int, options: dict[str, Any], address: str | None = None) -> None:
        self._ours = join(address)
        cores, gpus = machine()
        self._threads = max(1, cores // jobs)
        share = gpus // jobs if gpus >= jobs else gpus / jobs  # Ray takes whole ones, or a part of one
        self._task = ray.remote(num_cpus=self._threads, num_gpus=share, max_calls=1, max_retries=0)(_work)
        self._options = options
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._told = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})  # others may be lost
        self._shown: dict[str, Shown] = {}
        self._running: set[Any] = set()
        self._stopped = False
        threading.Thread(target=self._show, daemon=True).start()

    def run(self, cell: Cell, folder: Path, progress: Progress) -> None:
        """See `CellExecutor`. A cell that is lost runs again, at most `RESTARTS` times."""
        make_room(cell, folder)
        for losses in range(RESTARTS + 1):
            with Shown(progress) as shown:
                self._shown[cell.label] = shown
                reason = self._attempt(cell, folder)
                del self._shown[cell.label]
            if not reason or losses == RESTARTS or self._stopped:
                break
            progress.say(f"{cell.label}: {reason}; it runs again, from its newest checkpoint")
        note_failure(folder, STOPPED if self._stopped else f"its process ended {RESTARTS + 1} times: {reason}")

    def _attempt(self, cell: Cell, folder: Path) -> str:
        """Run a cell once; returns how it was lost, "" where it was not.

        Raises:
            RunFolderError: The folder is not shared with the machine on which the cell was to run.
        """
        if self._stopped:
            return ""
        given = cell.to_dict(), str(folder.absolute()), self._options, self._threads, str(Path.cwd()), self._told
        task = self._task.remote(*given)
        self._running.add(task)
        try:
            if refusal := ray.get(task):
                raise RunFolderError(refusal)
        except TaskCancelledError:
            pass
        except _LOST as error:
            return str(error).strip().partition("\n")[0]
        finally:
            self._running.discard(task)
        return ""

    def stop(self) -> None:
        """See `CellExecutor`."""
        self._stopped = True
        for task in list(self._running):
            ray.cancel(task, recursive=False)  # SIGINT where it runs; what it is telling just now still arrives

    def _show(self) -> None:
        """In a thread: show what cells tell, until Ray ends."""
        nobody = Shown(Silent())
        while True:
            try:
                label, told = self._told.get()
                self._shown.get(label, nobody).show(told)
            except queue.Empty:
                continue
            except Exception:  # Ray has ended
                return

    def __enter__(self) -> Ray:
        return self

    def __exit__(self, *exc: object) -> None:
        """End Ray where it was started here."""
        self._told.shutdown(force=True)
        if self._ours:
            ray.shutdown()


def _work(values: dict[str, Any], folder: str, options: dict[str, Any], threads: int, place: str, told: Any) -> str:
    """In the task; returns why it cannot run on this machine, "" where it can."""
    if not (Path(folder) / "cell.json").is_file():
        return f"{folder!r} is not there on {os.uname().nodename}; give --out on a folder that all machines share"
    os.chdir(place)  # what a suite names is relative to it
    label = Cell.from_dict(values).label
    with contextlib.suppress(Interrupted):  # it is saved
        run_told(values, Path(folder), options, threads, lambda what: told.put((label, what)), signal.SIGINT)
    return ""
