"""The judge's side of the untrusted processes: a zygote, and one solution process at a time.

They send only bytes of a declared length, under a random number of this side. The bytes become plain data, or a failure
of the program.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import builtins
import contextlib
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path
from random import SystemRandom
from typing import Any, NoReturn

from . import codec, spawn, zygote
from .jobs import Limits
from .rewrite import NOTE_LENGTH

CALLS_PER_ZYGOTE = 1000
_PATIENCE = 5.0  # seconds that a zygote may take for an order
_CHUNK = 1 << 14  # smallest number of bytes that are read at once
_SLICE = 0.25  # seconds between checks that the caller is still there
_random = SystemRandom()


class CaseTimeoutError(BaseException):
    """An assert that used too much CPU time; not an Exception, so that ordinary handlers do not catch it."""


class OverError(BaseException):
    """A program that cannot continue: it died, broke the protocol or used up its time; `outcome` names the reason."""

    def __init__(self, outcome: str, note: str) -> None:
        super().__init__(note)
        self.outcome = outcome


class ZygoteLostError(BaseException):
    """A zygote that died or stopped answering. Attribute `ours`: no generated code was running."""

    def __init__(self, note: str = "", *, ours: bool = False) -> None:
        super().__init__(note)
        self.ours = ours


class UnsupportedError(Exception):
    """A result that is not plain data, or an argument that cannot be encoded."""


class ProgramError(Exception):
    """A replacement for exceptions of a program that would end loops and generators of the tests."""


# --- zygote -----------------------------------------------------------------------------------------------------------


class Zygote:
    """The owner of a zygote, which is replaced after many calls or when it is lost; a supervisor process starts it.

    `prepare` orders the process of the next program in advance, so that it is ready when the program arrives.
    """

    def __init__(self, folder: str, site: list[str], layers: list[str]) -> None:
        self.folder = folder
        self.pid = 0
        self._options: dict[str, Any] = {"folder": folder, "site": site, "layers": layers}
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = socket.socket()
        self._control = socket.socket()
        self._calls = -1  # -1: its greeting has not been read
        self._ordered: socket.socket | None = None  # socket to the process that `spawn` returns next
        self._limits = 0, 0  # of the last ordered process: bytes of memory, seconds of CPU

    def open(self) -> None:
        """Start the supervisor and order a zygote; `spawn` waits for it."""
        Path(self.folder).mkdir(exist_ok=True, mode=0o700)
        self._keeper.close()
        self._keeper, theirs = socket.socketpair()
        options = {**self._options, "judge": theirs.fileno()}
        with theirs:
            self._process = spawn.start(
                "supervisor", options, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        self.replace()

    def replace(self) -> None:
        """Replace the zygote and its child; raise BrokenPipeError if the supervisor has gone."""
        self._drop()
        self._control.close()
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_PATIENCE)
        self._calls = -1
        with theirs:
            socket.send_fds(self._keeper, [b"z"], [theirs.fileno()])

    def _drop(self) -> None:
        """Close the connection to a process that was ordered."""
        if self._ordered is not None:
            self._ordered.close()
            self._ordered = None

    def _order(self) -> None:
        self._ordered, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [zygote.ORDER.pack(b"s", *self._limits)], [theirs.fileno()])

    def prepare(self) -> None:
        """Order the next process, with the limits of the last."""
        if 0 < self._calls < CALLS_PER_ZYGOTE and self._ordered is None:
            with contextlib.suppress(OSError):  # `spawn` will find that the zygote has gone
                self._order()

    def spawn(self, memory: int, cpu_seconds: int) -> tuple[socket.socket, int]:
        """Return a socket to a fresh solution process, and its process id."""
        limits, self._limits = self._limits, (memory, cpu_seconds)
        try:
            if self._ordered is not None and limits != self._limits:
                self._drop()
                self._answer()
                self._end()
            if self._ordered is None:
                if self._calls >= CALLS_PER_ZYGOTE:
                    self.replace()
                self._order()
            if self._calls < 0:
                self.pid, _ = self._answer()
            self._calls = max(self._calls, 0) + 1
            pid, _ = self._answer()
            self._control.sendall(zygote.ORDER.pack(b"g", 0, 0))
        except OSError as error:
            raise ZygoteLostError from error
        if pid <= 0 or self._ordered is None:
            raise ZygoteLostError
        ours, self._ordered = self._ordered, None
        return ours, pid

    def waited(self) -> float:
        """Return the time that the solution process has waited for a core, in seconds."""
        try:
            self._control.sendall(zygote.ORDER.pack(b"w", 0, 0))
            return self._answer()[0] / 1e6
        except OSError as error:
            raise ZygoteLostError from error

    def end(self) -> tuple[float, bool]:
        """End the solution process and its children; return its CPU seconds, and whether it waited long for a core."""
        try:
            used, waited = self._end()
        except OSError as error:
            raise ZygoteLostError from error
        return used / 1e6, bool(waited)

    def _end(self) -> tuple[int, int]:
        self._control.sendall(zygote.ORDER.pack(b"k", 0, 0))
        return self._answer()

    def _answer(self) -> tuple[int, int]:
        data = b""
        while len(data) < zygote.ANSWER.size:
            chunk = self._control.recv(zygote.ANSWER.size - len(data))
            if not chunk:
                raise ZygoteLostError
            data += chunk
        return zygote.ANSWER.unpack(data)

    def alive(self) -> bool:
        """Return whether the zygote is running; the other end of its socket closes when it ends."""
        try:
            return not select.select([self._control], [], [], 0)[0] or bool(self._control.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def close(self, *, trainer_gone: bool = False) -> None:
        """End all processes and remove the folder; also the pool's folder if the trainer has gone."""
        with contextlib.suppress(OSError):
            if trainer_gone:
                self._keeper.sendall(b"r")
        self._drop()
        self._keeper.close()
        self._control.close()
        if self._process is not None:
            self._process.wait()
            self._process = None


# --- solution ---------------------------------------------------------------------------------------------------------


class Solution:
    """One program, loaded into a process when first needed and again after a case that took too long.

    Args:
        zygote: Source of processes.
        load: First message to the process: prelude, solution, entry point, whether trust is low.
        limits: Limits of the job, scaled to this machine.
        gone: Function that returns whether the caller has gone, so that the work can stop.
    """

    def __init__(self, zygote: Zygote, load: tuple[Any, ...], limits: Limits, gone: Callable[[], bool]) -> None:
        self._zygote = zygote
        self._load = load
        self._low: bool = load[-1]
        self.keep: codec.Keep | None = None  # encodes objects of the program by number, see `proxies`
        self.kept: codec.Kept | None = None
        self.starts = 0  # number of processes so far
        self._limits = limits
        self._gone = gone
        self._socket: socket.socket | None = None
        self._pid = 0
        self._busy = False
        self._confined = False  # until then, no generated code has run in the process
        self._started = time.monotonic()
        self._deadline = self._started + limits.wall_seconds
        self._tests_end = time.process_time() + limits.cpu_seconds  # CPU seconds of this process
        self._case_end = 0.0  # CPU seconds of the process at which the current case ends
        self._asked = 0.0  # time of the current request
        self._answer_end = 0.0  # deadline of its answer
        self._wall_left = 0.0  # seconds that remain for answers in the current case
        self._slept = 0.0  # seconds of cases that ended while it slept; they count as CPU time
        self.cpu = 0.0  # CPU seconds of processes that have ended
        self._late = False
        self.starved = False

    def start(self) -> None:
        """Start a process and load the program into it."""
        left = self._limits.cpu_seconds - self.cpu - self._slept
        if left <= 0:
            raise OverError("timeout", "used up its CPU time")
        try:
            with _undisturbed():
                self._socket, self._pid = self._zygote.spawn(self._limits.memory_mb << 20, max(1, int(left + 1.5)))
        except ZygoteLostError as error:
            raise ZygoteLostError("no process could be started", ours=True) from error
        self._started = time.monotonic()
        self._case_end, self._wall_left = self._limits.case_seconds, self._limits.case_wall_seconds
        self._answer_end = self._deadline
        self._busy, self._confined = True, False
        greeting = self._receive(0)
        if greeting != ("ready",):
            raise ZygoteLostError(str(greeting), ours=True)
        self._confined = True
        self.starts += 1
        self._exchange(self._load)  # under the timer that the caller has set

    def begin_case(self) -> None:
        """Set the limits of time of a new case; raise OverError if the tests have no time left."""
        if time.process_time() > self._tests_end or time.monotonic() > self._deadline:
            raise OverError("timeout", "the tests took too long with what the program returned")
        if self._socket is not None:
            self._case_end = self._used() + self._limits.case_seconds
            self._wall_left = self._limits.case_wall_seconds

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the entry point; its exceptions are raised here as exceptions of their builtin types."""
        return self.ask((arguments, named))

    def ask(self, message: tuple[Any, ...]) -> Any:
        """Send a message of the guest protocol to the running process, or to a new one."""
        self.ready()
        return self._exchange(message)

    def ready(self) -> None:
        """Ensure that a process is running."""
        if self._busy:  # a case ended in the middle of a call
            self.stop()
        if self._socket is None:
            self.start()
            self.begin_case()

    def stop(self) -> None:
        """End the process, if there is one."""
        if self._socket is not None:
            with _undisturbed():
                self._socket.close()
                self._socket = None
                used, waited = self._zygote.end()
                self.cpu += used
                self.starved |= self._late and waited

    def _exchange(self, message: tuple[Any, ...]) -> Any:
        assert self._socket is not None
        try:
            body = codec.encode(message, low=True, keep=self.keep)
        except codec.CodecError as error:
            raise UnsupportedError(f"argument: {error}") from None
        number = _random.getrandbits(64)
        self._busy = True
        self._asked = time.monotonic()
        self._answer_end = self._asked + self._wall_left
        self._send(codec.frame(number, body))
        answer = self._receive(number)
        self._wall_left -= time.monotonic() - self._asked
        self._busy = False
        return _result(answer)

    def _send(self, data: bytes) -> None:
        assert self._socket is not None
        try:
            with contextlib.suppress(BlockingIOError):
                data = data[self._socket.send(data, socket.MSG_DONTWAIT) :]
            if data:
                self._socket.settimeout(max(0.01, min(self._deadline, self._answer_end) - time.monotonic()))
                self._socket.sendall(data)
                self._socket.settimeout(None)
        except TimeoutError:
            self._too_long()
        except OSError:
            self._die("ended")

    def _receive(self, number: int) -> Any:
        """Return the answer with the number of the request; frames with another number are not answers."""
        data = bytearray()
        self._read(data, codec.HEADER.size)
        length, answered = codec.HEADER.unpack_from(data)
        if answered != number or length > codec.MAX_SIZE:
            self._die("wrote what is no answer")
        self._read(data, codec.HEADER.size + length)
        try:
            answer = codec.decode(bytes(data[codec.HEADER.size :]), low=self._low, kept=self.kept)
        except codec.CodecError as error:
            self._die(f"wrote what is no value: {error}")
        if type(answer) is not tuple or not answer:
            self._die("wrote what is no answer")
        return answer

    def _read(self, data: bytearray, count: int) -> None:
        """Read until `data` has `count` bytes."""
        assert self._socket is not None
        while len(data) < count:
            if select.select([self._socket], [], [], self._patience())[0]:
                try:
                    chunk = self._socket.recv(min(max(count - len(data), _CHUNK), 1 << 20))
                except OSError:
                    chunk = b""
                if not chunk:
                    self._die("ended")
                data += chunk
            else:
                self._check_time()

    def _patience(self) -> float:
        wall = min(self._deadline, self._answer_end) - time.monotonic()
        case = self._case_end - self._used()
        return max(0.005, min(_SLICE, wall, case))

    def _check_time(self) -> None:
        if self._gone():
            raise OverError("infra_error", "the caller has gone")
        if time.monotonic() >= self._deadline:
            self._late = True
            raise OverError("timeout", "took too long")
        if self._used() >= self._case_end:
            self._too_long()
        if time.monotonic() >= self._answer_end:
            with _undisturbed():
                self._answer_end = self._asked + self._wall_left + self._zygote.waited()
            if time.monotonic() >= self._answer_end:
                self._too_long()

    def _too_long(self) -> NoReturn:
        self._slept += max(0.0, self._case_end - self._used())
        self.stop()
        if self.cpu + self._slept >= self._limits.cpu_seconds:
            raise OverError("timeout", "took too long")
        raise CaseTimeoutError

    def _used(self) -> float:
        """Return the CPU seconds of the process so far; a quarter of the wall time if it has no CPU clock."""
        try:
            return time.clock_gettime((~self._pid) << 3 | 2)
        except OSError:
            return (time.monotonic() - self._started) / 4

    def _die(self, reason: str) -> NoReturn:
        """Raise the error for a process that ended or sent invalid data: OverError, or ZygoteLostError."""
        if not self._confined or not self._zygote.alive():
            raise ZygoteLostError(reason, ours=not self._confined)
        self.stop()
        late = self.cpu >= self._limits.cpu_seconds
        raise OverError("timeout" if late else "died", "took too long" if late else f"the program {reason}")


@contextlib.contextmanager
def _undisturbed() -> Generator[None]:
    """Keep the timer of a case from interrupting an order and its answer."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])


def _result(answer: tuple[Any, ...]) -> Any:
    match answer:
        case ("value", value):
            return value
        case ("loaded",):
            return None
        case ("raised", list(), tuple(), str(note)):
            raise _exception(answer[1], answer[2], note)
        case ("refused", str(reason)):
            raise UnsupportedError(reason)
        case _:
            raise UnsupportedError("an answer of no known form")


def _exception(kinds: list[Any], arguments: tuple[Any, ...], note: str) -> BaseException:
    """Return an exception of the first builtin type in `kinds`; `note` describes it.

    A StopIteration would end a `map`, `zip` or `for` of the tests early, and a GeneratorExit other loops. These, and
    all exceptions that ordinary handlers do not catch, become a ProgramError. SystemExit is kept: a test may expect it.
    """
    error: BaseException = Exception(*arguments)
    for name in kinds:
        kind = getattr(builtins, name, None) if type(name) is str else None
        if isinstance(kind, type) and issubclass(kind, BaseException):
            if issubclass(kind, (StopIteration, StopAsyncIteration)) or not issubclass(kind, (Exception, SystemExit)):
                kind = ProgramError
            with contextlib.suppress(Exception):
                error = kind.__new__(kind, *arguments)
                error.__init__(*arguments)
            break
    error.program_note = note[:NOTE_LENGTH]  # type: ignore[attr-defined]
    return error
