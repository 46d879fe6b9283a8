"""Ctrl-C and SIGTERM: the first one asks the work to stop in order, the second one ends the process at once.

Python runs signal handlers between two instructions of the main thread, and one pass through a model may be a single
instruction of several seconds. So another thread, woken by `signal.set_wakeup_fd`, answers the first signal and obeys
the second.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(SystemExit):  # not an error: the work is saved
    """A signal asked the run to stop, and it can go on later. If not caught, the process ends with exit code 75."""

    CODE = 75  # EX_TEMPFAIL of sysexits.h: try again later

    def __init__(self, reason: str) -> None:
        super().__init__(self.CODE)
        self.reason = reason


def exit_reason(code: int) -> str:
    """An exit code in words; below 0, the signal that ended the process."""
    if code >= 0:
        return f"exit code {code}"
    memory = " (often: out of memory)" if code == -signal.SIGKILL else ""
    return f"signal {signal.Signals(-code).name}{memory}"


@dataclass
class StopRequest:
    """Whether a signal came, and what is finished first.

    Attributes:
        signal: Name of the first signal; "" before it comes.
        work: What is finished before stopping, e.g. "step 3"; "" to stop at once.
    """

    signal: str = ""
    work: str = ""

    @property
    def answer(self) -> str:
        """The answer to the first signal."""
        return f"{'finishing ' + self.work if self.work else 'stopping'}; again to stop now"


@dataclass
class _Watch:
    """Handles signals."""

    say: Callable[[str], None]
    numbers: Sequence[int]
    request: StopRequest = field(default_factory=StopRequest)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """In the main thread."""
        if self.request.signal:
            return  # the other thread ends the process
        self.request.signal = signal.Signals(number).name
        if not self.request.work:
            raise Interrupted(self.request.signal)

    def listen(self, reader: int) -> None:
        """In a thread of its own, until the pipe is closed."""
        answered = False
        while number := os.read(reader, 1):
            if number[0] not in self.numbers:
                continue
            if answered:
                for act in reversed(_last_acts):
                    with contextlib.suppress(Exception):
                        act()
                os._exit(128 + number[0])
            answered = True
            self.say(self.request.answer)
        os.close(reader)


_watch: _Watch | None = None
_last_acts: list[Callable[[], object]] = []


@contextlib.contextmanager
def stopping_at_once(
    say: Callable[[str], None] = lambda text: None, numbers: Sequence[int] = SIGNALS
) -> Generator[StopRequest]:
    """The first signal raises `Interrupted` in the main thread, or waits for `finishing`; the second ends the process.

    Outside of the main thread, where signals cannot be handled, and where they are handled already, it does nothing.

    Args:
        say: Called, in another thread, with the answer to the first signal.
        numbers: The signals.
    """
    global _watch  # signal handlers belong to the whole process
    if _watch is not None or threading.current_thread() is not threading.main_thread():
        yield _watch.request if _watch else StopRequest()
        return
    _watch = watch = _Watch(say, numbers)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    threading.Thread(target=watch.listen, args=[reader], daemon=True).start()
    handlers = {number: signal.signal(number, watch.handle) for number in numbers}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield watch.request
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        _watch = None
        os.close(writer)  # which ends the thread


@contextlib.contextmanager
def finishing(work: str) -> Generator[StopRequest]:
    """The first signal waits until this block is left, and then raises `Interrupted`.

    Yields:
        The request; the block may look at its `signal`, leave early, and say what else it finishes in its `work`.
    """
    with stopping_at_once() as request:
        request.work = work
        try:
            yield request
        finally:
            done, request.work = request.work, ""
        if request.signal:
            raise Interrupted(f"{request.signal} after {done}")


@contextlib.contextmanager
def before_the_end(act: Callable[[], object]) -> Generator[None]:
    """While the block runs, a second signal calls `act` before it ends the process: quick, and safe in any thread."""
    _last_acts.append(act)
    try:
        yield
    finally:
        _last_acts.remove(act)
