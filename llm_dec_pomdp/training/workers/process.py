# pyright: basic
"""Workers as plain processes on this machine.

They are forked from a process that has imported torch and started no threads, so that a worker starts fast. A worker
ignores the signals of a terminal: it ends with its driver, or when it is killed. Messages are pickled, since both ends
are trusted. Each call sets the number of threads, so that results are rounded in the same way.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch

from ...storage.signals import exit_reason
from .base import STOP, OnMessage, Resources, Worker, WorkerLostError
from .host import BUILD, Answer, Host, serve
from .transport import Transport

_PRELOAD = ["torch", "transformers", "peft", __name__]
_SECONDS = 5.0  # largest wait for the exit code of an ended process


class Processes(Transport):
    """Executor with a process on this machine for each worker."""

    def start(self, name: str, build: Callable[[], Any], resources: Resources) -> ProcessWorker:
        """See `Transport`."""
        return ProcessWorker(name, build, resources.cores)

    def share(self, jobs: int) -> tuple[int, Resources]:
        """See `Transport`."""
        return jobs, Resources(max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else 0)


# --- the driver side --------------------------------------------------------------------------------------------------


class ProcessWorker(Worker):
    """A worker in its own process."""

    def __init__(self, name: str, build: Callable[[], Any], threads: int = 0) -> None:
        super().__init__(name)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*_PRELOAD, getattr(build, "func", build).__module__])
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=[theirs], daemon=True)
        self._process.start()
        theirs.close()
        atexit.register(self.end)  # before multiprocessing waits for a process that ignores signals
        self._threads = threads
        self._lock = threading.Lock()
        self._built: Any = None  # an `Answer`
        try:
            self._send(BUILD, build)
        except BaseException:
            self.end()
            raise

    def call(self, method: str, *arguments: Any, on_message: OnMessage | None = None) -> Any:
        """See `Worker`."""
        with self._lock:
            try:
                if self._built is None:
                    self._built = self._receive()
                self._built.get()
                self._send(method, *arguments, heard=on_message is not None)
                while not isinstance(message := self._receive(), Answer):
                    on_message(message)  # pyright: ignore
            except BaseException:  # also after a signal: the next answer would belong to this call
                self.end()
                raise
        return message.get()

    def _send(self, method: str, *arguments: Any, heard: bool = False) -> None:
        try:
            message = pickle.dumps((method, arguments, self._threads or torch.get_num_threads(), heard))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                f"arguments for {self.name} cannot be sent to it ({error}); give functions and classes of modules"
            ) from error
        try:
            self._connection.send_bytes(message)
        except OSError:
            raise self._lost() from None

    def _receive(self) -> Any:  # an `Answer`, or a message of a method
        try:
            return pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._lost() from None

    def _lost(self) -> WorkerLostError:
        self._process.join(_SECONDS)
        code = self._process.exitcode
        return WorkerLostError(f"{self.name} ended with {'no exit code' if code is None else exit_reason(code)}")

    def stop(self) -> None:
        """See `Worker`."""
        if pid := self._process.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, STOP)

    def end(self) -> None:
        """See `Worker`."""
        atexit.unregister(self.end)
        self._process.kill()
        self._process.join()
        self._connection.close()


# --- in the process ---------------------------------------------------------------------------------------------------


def _serve(connection: Connection) -> None:
    serve(connection, Host().answer, partial(os._exit, 1))
