# pyright: basic
"""The worker side: an object that answers the calls of a driver one by one."""

from __future__ import annotations

import contextlib
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, NoReturn

import torch

from ...storage.signals import SIGNALS
from ...user_code import Frame, WorkerTraceback, frames, is_of_user
from ..loop import TrainingError

BUILD = "build"  # the first call of a `Host`
Emit = Callable[[Any], None]


class Answer(NamedTuple):
    """The result of a call: a value, or an error with its traceback and the frames of the traceback."""

    value: Any = None
    error: Exception | None = None
    trace: str = ""
    frames: tuple[Frame, ...] = ()

    @classmethod
    def of(cls, error: Exception) -> Answer:
        """Return the answer for the error that is being handled.

        An error that cannot be pickled becomes a `TrainingError`, or a `RuntimeError` if user code raised it.
        """
        sent = error
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            sent = (RuntimeError if is_of_user(error) else TrainingError)(f"{type(error).__name__}: {error}")
            for note in getattr(error, "__notes__", ()):
                sent.add_note(note)
        return cls(None, sent, traceback.format_exc(), frames(error))

    def get(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error from WorkerTraceback(self.trace, self.frames)
        return self.value


class Host:
    """Owner of a worker's object; its only method returns errors and never raises them."""

    _object: Any

    def answer(self, method: str, arguments: Sequence[Any], threads: int, emit: Emit | None = None) -> Answer:
        """Build the object, or call one of its methods.

        Args:
            method: `BUILD`, or the name of a method.
            arguments: For `BUILD`, a function that returns the object; else the arguments of the method.
            threads: Number of threads that torch uses.
            emit: Function that the method calls with intermediate messages; None: the method takes none.

        Returns:
            The result, or the error.
        """
        try:
            torch.set_num_threads(threads)
            if method == BUILD:
                self._object = arguments[0]()
                return Answer()
            return Answer(getattr(self._object, method)(*arguments, **({"emit": emit} if emit else {})))
        except Exception as error:
            return Answer.of(error)


def serve(connection: Connection, answer: Callable[..., Answer], at_end: Callable[[], object]) -> NoReturn:
    """Answer the messages of a driver one by one; when the driver ends, call `at_end`, which must end the process.

    A thread receives messages while others compute, so that the end of the driver is noticed at once.
    """
    for number in SIGNALS:  # terminals and schedulers send them to all processes; only the driver reacts
        signal.signal(number, signal.SIG_IGN)
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        while True:
            try:
                messages.put(connection.recv_bytes())
            except (EOFError, OSError):
                at_end()

    def emit(message: Any) -> None:
        connection.send_bytes(pickle.dumps(message))

    threading.Thread(target=listen, daemon=True).start()
    while True:
        message = messages.get()
        try:
            *call, heard = pickle.loads(message)
            reply = pickle.dumps(answer(*call, emit if heard else None))
        except Exception as error:  # a message needs a module that only one side can import
            reply = pickle.dumps(Answer.of(error))
        with contextlib.suppress(OSError):  # without a driver the process ends
            connection.send_bytes(reply)
