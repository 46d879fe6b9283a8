"""Sessions of a server: the states of each client's episodes, by number, and their limits."""

from __future__ import annotations

import contextlib
import secrets
import sys
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import TypeVar

from ..envs import TextDecPOMDP

T = TypeVar("T")
WEIGHT = 1 << 13  # bytes of an environment without its texts; measured: 5 to 6 KB
NAME_LENGTH = range(16, 101)  # characters of a session's name, long enough not to be guessed
_REFERENCE = 8  # bytes of a message in a history, without its text


class RefusedError(Exception):
    """A request that the server refuses.

    Attributes:
        code: A code of OpenEnv's protocol, such as "VALIDATION_ERROR".
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server.

    Attributes:
        sessions: Sessions at the same time.
        megabytes: MiB of texts and environments per session; the least recently used states are dropped first.
        total_megabytes: MiB of all sessions; the largest session loses states first.
        idle: Seconds without a request after which a session ends.
    """

    sessions: int = 256
    megabytes: int = 64
    idle: float = 3600.0
    total_megabytes: int = 2048

    def __post_init__(self) -> None:
        for name in ("sessions", "megabytes", "idle", "total_megabytes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be more than 0")

    @property
    def connections(self) -> int:
        """The maximum number of open connections; a client has one for each thread that waits for an answer."""
        return 2 * self.sessions + 256


@dataclass(slots=True)
class _Part:
    """A message or a task, the same object in all environments that share it."""

    value: object  # a reference, so that its id is not reused
    bytes: int
    holders: int = 0


class Session:
    """The states of one client, by number; 0 is the served environment before its first reset.

    A stored state never changes: a request plays a fork of it. A text that several states have in their histories is
    stored once, and counted until the last of them is dropped.

    Attributes:
        current: Number of the state that requests without a number play.
        lasting: Whether the session outlives its last connection.
        connections: Number of open connections.
    """

    def __init__(self, name: str, env: TextDecPOMDP, most_bytes: int, lock: threading.RLock | None = None) -> None:
        self.name = name
        self.bytes = 0
        self.current = 0
        self.lasting = False
        self.connections = 0
        self.playing = threading.Lock()  # only one request at a time plays the current state
        self._first = env
        self._lock = lock or threading.RLock()
        self._held: OrderedDict[int, tuple[TextDecPOMDP, array[int]]] = OrderedDict()  # with its parts
        self._parts: dict[int, _Part] = {}  # by identity
        self._last = secrets.randbits(40)  # random, so that numbers of an earlier server process are unknown
        self._most_bytes = most_bytes

    def copy(self, number: int) -> TextDecPOMDP:
        """Return a fork of a state.

        Raises:
            RefusedError: The state was dropped or never existed, or its environment cannot be forked.
        """
        with self._lock:
            if number == 0:
                return self._first.fork()
            if number not in self._held:
                raise RefusedError(
                    "SESSION_ERROR",
                    f"state {number} is not stored (any more): the server was restarted, the session was idle for too "
                    f"long (serve --idle), or it has more than {self._most_bytes >> 20} MiB (serve --megabytes; all "
                    "sessions: --total-megabytes); make the environment again",
                )
            self._held.move_to_end(number)
            try:
                return self._held[number][0].fork()
            except ValueError as error:
                raise RefusedError("EXECUTION_ERROR", str(error)) from error

    def keep(self, env: TextDecPOMDP) -> int:
        """Store an environment and return its number.

        Raises:
            RefusedError: The environment has more bytes than the limit of a session.
        """
        parts = {id(value): _Part(value, size) for value, size in self._sizes(env)}
        with self._lock:
            if self._weight(parts) + sum(part.bytes for part in parts.values()) > self._most_bytes:
                raise RefusedError(
                    "EXECUTION_ERROR",
                    f"the texts of the episode exceed the limit of a session, {self._most_bytes >> 20} MiB (serve "
                    "--megabytes); start another episode, or write shorter texts",
                )
            self._last += 1
            self._held[self._last] = env, array("Q", parts)
            for name, part in parts.items():
                known = self._parts.setdefault(name, part)
                self.bytes += 0 if known.holders else part.bytes
                known.holders += 1
            self.bytes += self._weight(parts)
            while self.bytes > self._most_bytes:
                self.drop_oldest()
            return self._last

    def _sizes(self, env: TextDecPOMDP) -> Iterator[tuple[object, int]]:
        """Yield the parts that forks of an environment share (messages, the client's own tasks), with their bytes."""
        with contextlib.suppress(KeyError):  # before the first reset
            for agent in env.possible_agents:
                for message in env.history(agent):
                    yield message, sys.getsizeof(message.text) + sys.getsizeof(message)
        if env.items is not self._first.items:
            for item in env.items:
                yield item, sum(map(sys.getsizeof, (item, *item.reference, *item.fields.values())))

    @staticmethod
    def _weight(parts: Sized) -> int:
        return WEIGHT + 2 * _REFERENCE * len(parts)  # one reference in the history and one here

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop states; unknown numbers are ignored."""
        with self._lock:
            for number in numbers:
                self._drop(number)

    def drop_oldest(self) -> None:
        """Drop the least recently used state."""
        self._drop(next(iter(self._held)))

    def _drop(self, number: int) -> None:
        _, parts = self._held.pop(number, (None, None))
        if parts is None:
            return
        self.bytes -= self._weight(parts)
        for name in parts:
            part = self._parts[name]
            part.holders -= 1
            if not part.holders:
                self.bytes -= part.bytes
                del self._parts[name]

    def __len__(self) -> int:
        return len(self._held)


class Sessions:
    """The sessions of a server.

    Args:
        env: The served environment.
        limits: Its limits.
    """

    def __init__(self, env: TextDecPOMDP, limits: Limits) -> None:
        self.env = env
        self.limits = limits
        self._lock = threading.RLock()
        self._open: OrderedDict[str, tuple[Session, float]] = OrderedDict()  # with the time of the last request

    def join(self, name: str = "") -> Session:
        """Return the session of a name, and start it if necessary; without a name, start a new session.

        The caller calls `leave` when its connection ends. A session with a name is kept without connections until it is
        idle for too long, or until a new session replaces it.

        Raises:
            RefusedError: The name is too short or too long, the server has its maximum number of connections, or all
                sessions are in use.
        """
        if name and len(name) not in NAME_LENGTH:
            raise RefusedError(
                "VALIDATION_ERROR",
                f"session_id is {name!r:.60}; give a random name of {NAME_LENGTH[0]} to {NAME_LENGTH[-1]} characters",
            )
        with self._lock:
            self._end_idle()
            if sum(session.connections for session, _ in self._open.values()) >= self.limits.connections:
                raise RefusedError(
                    "CAPACITY_REACHED", f"the server has {self.limits.connections} connections, its limit; try later"
                )
            if name not in self._open:
                if len(self._open) >= self.limits.sessions:
                    self._make_room()
                name, lasting = name or secrets.token_urlsafe(24), bool(name)
                session = Session(name, self.env.fork(), self.limits.megabytes << 20, self._lock)
                session.lasting = lasting
                self._open[name] = session, time.monotonic()
            session = self.find(name)
            session.connections += 1
            return session

    def _make_room(self) -> None:
        unused = next((name for name, (session, _) in self._open.items() if not session.connections), None)
        if unused is None:
            raise RefusedError(
                "CAPACITY_REACHED",
                f"the server has {self.limits.sessions} sessions, its limit (serve --sessions); close an environment, "
                "or try later",
            )
        del self._open[unused]

    def leave(self, session: Session) -> None:
        """End a connection to a session."""
        with self._lock:
            session.connections -= 1
            if not session.lasting and not session.connections:
                self.close(session.name)

    def find(self, name: str) -> Session:
        """Return an open session by its name and note the time of this request.

        Raises:
            RefusedError: There is no such session, or it has ended.
        """
        with self._lock:
            self._end_idle()
            if name not in self._open:
                raise RefusedError(
                    "SESSION_ERROR",
                    "the server does not know this session (any more): it was closed, had no request for "
                    f"{self.limits.idle:.0f} s (serve --idle), or the server was restarted; start another session",
                )
            session, _ = self._open.pop(name)
            self._open[name] = session, time.monotonic()
            return session

    def play(
        self, session: Session, move: Callable[[TextDecPOMDP], T], number: int | None = None
    ) -> tuple[int, TextDecPOMDP, T]:
        """Apply a move to a fork of a state and store the result.

        Args:
            session: The session.
            move: Function that resets or steps the environment.
            number: The state; None: the session's current state, which the result replaces.

        Returns:
            Number and environment of the new state, and the result of `move`.

        Raises:
            RefusedError: There is no such state, the move fails, or the result is too large.
        """
        if number is not None:
            env = session.copy(number)
            result = attempt(env, lambda: move(env))
            return self.keep(session, env), env, result
        with session.playing:
            number, env, result = self.play(session, move, session.current)
            session.forget([session.current])
            session.current = number
            return number, env, result

    def keep(self, session: Session, env: TextDecPOMDP) -> int:
        """Store an environment and return its number; if all are too large together, the largest loses states."""
        with self._lock:
            number = session.keep(env)
            held = [other for other, _ in self._open.values()]
            over = sum(other.bytes for other in held) - (self.limits.total_megabytes << 20)
            while over > 0:
                largest = max(held, key=lambda other: other.bytes)
                before = largest.bytes
                largest.drop_oldest()
                over -= before - largest.bytes
            return number

    def close(self, name: str) -> None:
        """End a session; a name that is not open is ignored."""
        with self._lock:
            self._open.pop(name, None)

    def _end_idle(self) -> None:
        before = time.monotonic() - self.limits.idle
        while self._open:
            name, (_, used) = next(iter(self._open.items()))
            if used >= before:
                return
            del self._open[name]

    def __len__(self) -> int:
        with self._lock:
            self._end_idle()
            return len(self._open)


def attempt(env: TextDecPOMDP, run: Callable[[], T]) -> T:
    """Return the result of `run`, which calls the environment.

    Raises:
        RefusedError: The environment raised an exception.
    """
    try:
        return run()
    except RefusedError:
        raise
    except Exception as error:
        raise RefusedError(
            "EXECUTION_ERROR", f"{env.metadata['name']} raised {type(error).__name__}: {error}"
        ) from error
