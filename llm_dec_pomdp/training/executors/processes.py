# pyright: basic
"""Workers as plain processes on this machine.

They are forked from a process that has imported torch and started nothing, so that starting or replacing a worker is
fast. A worker has no terminal and ignores signals: it ends with its driver, or when it is killed. Messages are pickled,
since both ends are ours. Each call carries the driver's number of threads, so that numbers are rounded alike.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch

from ...agents.base import Team
from ...storage.signals import exit_reason
from .base import WorkerLostError
from .placed import Needs, Worker, Workers
from .worker import BUILD, Answer, AnsweringWorker, serve

_PRELOAD = ["torch", "transformers", "peft", __name__]
_SECONDS = 5.0  # to wait for the exit code of a process that ended


class Processes(Workers):
    """A process of its own on this machine for each policy."""

    def start(self, agents: Sequence[str], build: Callable[[], Team], needs: Needs) -> Worker:
        """See `Workers`."""
        return _Process(agents, build, needs.ranks)


# --- the driver's end -------------------------------------------------------------------------------------------------


class _Process:
    """A worker in a process of its own."""

    def __init__(self, agents: Sequence[str], build: Callable[[], Team], ranks: int) -> None:
        self.name = f"the worker of {', '.join(agents)}"
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOAD)
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=[theirs], daemon=True)
        self._process.start()
        theirs.close()
        atexit.register(self.end)  # before multiprocessing waits for a process that ignores signals
        self._lock = threading.Lock()
        self._built: Answer | None = None
        try:
            self._send(BUILD, list(agents), build, ranks)
        except BaseException:
            self.end()
            raise

    def call(self, method: str, *given: Any) -> Any:
        with self._lock:
            try:
                self._built = self._built or self._receive()
                self._built.get()
                self._send(method, *given)
                answer = self._receive()
            except BaseException:  # a signal, too: the next answer would belong to this call
                self.end()
                raise
        return answer.get()

    def _send(self, method: str, *given: Any) -> None:
        try:
            message = pickle.dumps((method, given, torch.get_num_threads()))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                f"what {self.name} needs cannot be sent to it ({error}); give functions and classes of modules"
            ) from error
        try:
            self._connection.send_bytes(message)
        except OSError:
            raise self._lost() from None

    def _receive(self) -> Answer:
        try:
            return pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._lost() from None

    def _lost(self) -> WorkerLostError:
        self._process.join(_SECONDS)
        code = self._process.exitcode
        return WorkerLostError(f"{self.name} ended with {'no exit code' if code is None else exit_reason(code)}")

    def end(self) -> None:
        atexit.unregister(self.end)
        self._process.kill()
        self._process.join()
        self._connection.close()


# --- in the process ---------------------------------------------------------------------------------------------------


def _serve(connection: Connection) -> None:
    """Answer one message after the other, the first of which says what to build."""
    serve(connection, AnsweringWorker().answer, partial(os._exit, 1))
