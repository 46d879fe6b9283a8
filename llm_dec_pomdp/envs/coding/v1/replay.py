"""A run of main without what aux said: the heart of the measurement, see `observer`.

This source is sent to the process of a program, after `knowledge` and before `observer`.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from .knowledge import Call, Knowledge, Returned
from .sites import copied, mark

LONGER, SHORTEST = 3, 500  # a replay may take so many times the values of the true run, and so many more


class Replay:
    """A run of main in which aux's values are withheld, and main keeps what it knows."""

    def __init__(self, call: Call, knowledge: Knowledge, given: list[Any], stop: type[BaseException]) -> None:
        self._call, self._knowledge, self._stop = call, knowledge, stop
        self._last = {-at: (mark(value), copied(value)) for at, value in enumerate(given, 1)}
        self._last[0] = (mark(given), copied(given))
        self._seen: dict[int, int] = {}
        self._left = LONGER * call.events + SHORTEST
        self._asked = 0

    def returned(self, echo: list[Any], pool: Mapping[Any, Returned], draw: random.Random) -> Any:
        """Instead of what aux said: its arguments, if there are any in `echo`, or what it said elsewhere."""
        returned = self._call.returned
        true = returned[self._asked] if self._asked < len(returned) else None
        self._asked += 1
        if echo:
            return copied(echo[0] if len(echo) == 1 else echo)
        others = [other for marked, other in pool.items() if marked != true]
        if others:
            other = draw.choice(others)
            return Returned(copied(other.value), other.raised, other.iterates).again()
        try:
            return type(pool[true].value)()
        except Exception:
            return None

    def see(self, site: int, value: Any) -> Any:
        """The value to go on with."""
        self._left -= 1
        if self._left < 0:
            raise self._stop
        marked = mark(value)
        found = self._known(site)
        if found and found[0] != marked:
            marked, value = found[0], copied(found[1])
        self._last[site] = (marked, value)
        return value

    def instead(self, site: int) -> Any:
        """The value of a site that raised an error, which goes on where main does not know better."""
        found = self._known(site)
        if not found:
            raise
        self._last[site] = found
        return copied(found[1])

    def _known(self, site: int) -> tuple[Any, Any] | None:
        """The true value of a site, if main holds it."""
        at = self._seen.get(site, 0)
        self._seen[site] = at + 1
        if self._knowledge.is_constant(site):
            return self._knowledge.constant[site]
        true = self._call.values.get(site, ())
        if at < len(true):
            for other in self._knowledge.sources(site):
                held = self._last.get(other)
                if held and held[0] == true[at]:
                    return held
        return None
