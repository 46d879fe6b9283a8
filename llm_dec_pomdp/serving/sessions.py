"""What a server holds of its clients: environments by number, in sessions that have limits."""

from __future__ import annotations

import contextlib
import secrets
import sys
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass

from ..envs import TextDecPOMDP

WEIGHT = 1 << 13  # bytes that an environment takes beside its texts; measured: 5 to 6 KB
_PLACE = 8  # bytes of a message in a history, beside its text


class RefusedError(Exception):
    """A request that is not done.

    Attributes:
        status: Of HTTP.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server grants.

    Attributes:
        sessions: How many there may be at the same time.
        megabytes: Of texts and environments that a session may hold, in MiB; what was used longest ago goes first.
        total_megabytes: That all sessions together may hold; the session that holds the most loses first.
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


@dataclass(slots=True)
class _Part:
    """What environments share: a message or a task, which is the same object in all of them."""

    held: object  # so that its identity is nobody else's
    bytes: int
    holders: int = 0


class Session:
    """The environments that one client may come back to, by number; 0 is the one that the session began with.

    What is held is never played: a request plays a fork of it. A text that several of them have in their histories is
    held once, and counted until the last of them goes.

    Attributes:
        place: Where the episode stands that programs play which know no numbers: OpenEnv's and MCP's.
        playing: Held while that episode goes on, by one request after the other.
    """

    def __init__(self, name: str, env: TextDecPOMDP, most_bytes: int, lock: threading.RLock | None = None) -> None:
        self.name = name
        self.bytes = 0
        self.place = 0
        self.playing = threading.Lock()
        self._first = env
        self._lock = lock or threading.RLock()
        self._held: OrderedDict[int, tuple[TextDecPOMDP, array[int]]] = OrderedDict()  # with its parts
        self._parts: dict[int, _Part] = {}  # by identity
        self._last = 0
        self._most_bytes = most_bytes

    def copy(self, place: int) -> TextDecPOMDP:
        """A fork of what is held under a number.

        Raises:
            RefusedError: It is not held any more, or never was, or cannot be copied.
        """
        with self._lock:
            if place == 0:
                return self._first.fork()
            if place not in self._held:
                raise RefusedError(
                    410,
                    f"the environment number {place} is not held any more: a session holds {self._most_bytes >> 20} "
                    "MiB (serve --megabytes; all of them --total-megabytes), and what was used longest ago goes "
                    "first; make the environment again",
                )
            self._held.move_to_end(place)
            try:
                return self._held[place][0].fork()
            except ValueError as error:
                raise RefusedError(422, str(error)) from error

    def keep(self, env: TextDecPOMDP) -> int:
        """Hold an environment from now on; its number.

        Raises:
            RefusedError: It alone has more bytes than a session may hold.
        """
        parts = {id(held): _Part(held, size) for held, size in self._sizes(env)}
        with self._lock:
            if self._weight(parts) + sum(part.bytes for part in parts.values()) > self._most_bytes:
                raise RefusedError(
                    413,
                    f"the episode has more texts than a session may hold, {self._most_bytes >> 20} MiB (serve "
                    "--megabytes); begin another, or write less",
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
        """What copies of an environment share, with the bytes of it: messages, and tasks of the client's own."""
        with contextlib.suppress(KeyError):  # nobody has been told anything yet
            for agent in env.possible_agents:
                for message in env.history(agent):
                    yield message, sys.getsizeof(message.text) + sys.getsizeof(message)
        if env.items is not self._first.items:
            for item in env.items:
                yield item, sum(map(sys.getsizeof, (item, *item.reference, *item.fields.values())))

    @staticmethod
    def _weight(parts: Sized) -> int:
        return WEIGHT + 2 * _PLACE * len(parts)  # in the history and here

    def forget(self, places: Iterable[int]) -> None:
        """Hold some numbers no longer."""
        with self._lock:
            for place in places:
                self._drop(place)

    def drop_oldest(self) -> None:
        """Hold what was used longest ago no longer."""
        self._drop(next(iter(self._held)))

    def _drop(self, place: int) -> None:
        _, parts = self._held.pop(place, (None, None))
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
    """The sessions of a server, each with a name that nobody can guess."""

    def __init__(self, env: TextDecPOMDP, limits: Limits) -> None:
        self.env = env
        self.limits = limits
        self._lock = threading.RLock()
        self._open: OrderedDict[str, tuple[Session, float]] = OrderedDict()  # with the time of the last request

    def open(self) -> Session:
        """A new session.

        Raises:
            RefusedError: The server has as many as its limit.
        """
        with self._lock:
            self._end_idle()
            if len(self._open) >= self.limits.sessions:
                raise RefusedError(
                    503,
                    f"the server has its most sessions, {self.limits.sessions} (serve --sessions); close an "
                    "environment, or try later",
                )
            session = Session(secrets.token_urlsafe(24), self.env.fork(), self.limits.megabytes << 20, self._lock)
            self._open[session.name] = session, time.monotonic()
            return session

    def find(self, name: str) -> Session:
        """A session by its name; it is not idle now.

        Raises:
            RefusedError: There is none any more.
        """
        with self._lock:
            self._end_idle()
            if name not in self._open:
                raise RefusedError(
                    410,
                    "the server does not know this session (any more): it was closed, had no request for "
                    f"{self.limits.idle:.0f} s (serve --idle), or the server was started anew; make the environment "
                    "again",
                )
            session, _ = self._open.pop(name)
            self._open[name] = session, time.monotonic()
            return session

    def keep(self, session: Session, env: TextDecPOMDP) -> int:
        """Hold an environment in a session; its number. Where all hold too much, the one with the most loses first."""
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
        """End a session, if there is such a one."""
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
