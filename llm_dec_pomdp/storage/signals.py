"""Ctrl-C and SIGTERM: the first signal requests a graceful stop, the second one ends the process at once.

Python runs signal handlers between two instructions of the main thread, and a forward pass may be one instruction of
several seconds. So another thread, woken by `signal.set_wakeup_fd`, prints the answer to the first signal and ends the
process on the second.
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
    """A signal stopped the run, which can be resumed. If not caught, the process ends with exit code 75."""

    CODE = 75  # EX_TEMPFAIL of sysexits.h: try again later

    def __init__(self, reason: str) -> None:
        super().__init__(self.CODE)
        self.reason = reason


def exit_reason(code: int) -> str:
    """Return an exit code in words; a negative code names the signal that ended the process."""
    if code >= 0:
        return f"exit code {code}"
    memory = " (often: out of memory)" if code == -signal.SIGKILL else ""
    return f"signal {signal.Signals(-code).name}{memory}"


@dataclass
class StopRequest:
    """A request to stop, and the work that is finished first.

    Attributes:
        signal: Name of the first signal; "" before it arrives.
        work: Work to finish before stopping, e.g. "step 3"; "" to stop at once.
    """

    signal: str = ""
    work: str = ""

    @property
    def answer(self) -> str:
        """The line that is printed after the first signal."""
        return f"{'finishing ' + self.work if self.work else 'stopping'}; repeat the signal to stop at once"


@dataclass
class _Watch:
    """The handler of the signals."""

    say: Callable[[str], None]
    numbers: Sequence[int]
    request: StopRequest = field(default_factory=StopRequest)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note the first signal, in the main thread; raise Interrupted if there is no work to finish."""
        if self.request.signal:
            return  # the other thread ends the process
        self.request.signal = signal.Signals(number).name
        if not self.request.work:
            raise Interrupted(self.request.signal)

    def listen(self, reader: int) -> None:
        """Answer the first signal and end the process on the second; run in a thread until the pipe is closed."""
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
    """Raise `Interrupted` in the main thread on the first signal; end the process on the second.

    Within `finishing` the first signal waits for the end of that block. Outside of the main thread, where signals
    cannot be handled, and in a nested call, this does nothing.

    Args:
        say: Function that is called in another thread with the answer to the first signal.
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
        os.close(writer)  # this ends the thread


@contextlib.contextmanager
def finishing(work: str) -> Generator[StopRequest]:
    """Delay the first signal until the block ends, and then raise `Interrupted`.

    Yields:
        The request. The block may read its `signal` to leave early, and may change its `work`.
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
    """Call `act` if a second signal ends the process during the block. `act` must be fast and thread-safe."""
    _last_acts.append(act)
    try:
        yield
    finally:
        _last_acts.remove(act)
