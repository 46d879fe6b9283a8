"""What a server holds of its clients: environments by number, in sessions that have limits."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from ..envs import TextDecPOMDP

WEIGHT = 1 << 13  # bytes that an environment takes beside its new texts; measured: 5 to 6 KB


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
        idle: Seconds without a request after which a session ends.
    """

    sessions: int = 256
    megabytes: int = 64
    idle: float = 3600.0

    def __post_init__(self) -> None:
        for name in ("sessions", "megabytes", "idle"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be more than 0")


class Session:
    """The environments that one client may come back to, by number; 0 is the one that the session began with.

    What is held is never played: a request plays a fork of it.
    """

    def __init__(self, name: str, env: TextDecPOMDP, most_bytes: int) -> None:
        self.name = name
        self._first = env
        self._lock = threading.Lock()
        self._held: OrderedDict[int, tuple[TextDecPOMDP, int]] = OrderedDict()  # with its bytes
        self._last = 0
        self._bytes = 0
        self._most_bytes = most_bytes

    def copy(self, place: int) -> TextDecPOMDP:
        """A fork of what is held under a number.

        Raises:
            RefusedError: It is not held any more, or never was.
        """
        with self._lock:
            if place == 0:
                return self._first.fork()
            if place not in self._held:
                raise RefusedError(
                    410,
                    f"the environment number {place} is not held any more: a session holds {self._most_bytes >> 20} "
                    "MiB (serve --megabytes), and what was used longest ago goes first; make the environment again",
                )
            self._held.move_to_end(place)
            return self._held[place][0].fork()

    def keep(self, env: TextDecPOMDP, texts: int) -> int:
        """Hold an environment from now on, with so many bytes of new texts; its number."""
        with self._lock:
            self._last += 1
            self._held[self._last] = env, WEIGHT + texts
            self._bytes += WEIGHT + texts
            while self._bytes > self._most_bytes and len(self._held) > 1:
                self._drop(next(iter(self._held)))
            return self._last

    def forget(self, places: Iterable[int]) -> None:
        """Hold some numbers no longer."""
        with self._lock:
            for place in places:
                self._drop(place)

    def _drop(self, place: int) -> None:
        _, weight = self._held.pop(place, (None, 0))
        self._bytes -= weight

    def __len__(self) -> int:
        return len(self._held)


class Sessions:
    """The sessions of a server, each with a name that nobody can guess."""

    def __init__(self, env: TextDecPOMDP, limits: Limits) -> None:
        self.env = env
        self.limits = limits
        self._lock = threading.Lock()
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
            session = Session(secrets.token_urlsafe(24), self.env.fork(), self.limits.megabytes << 20)
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
