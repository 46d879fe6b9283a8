"""What the two functions of a program know: values that stood at their sites, and what always holds for them.

This source is sent to the process of a program, after `sites` and before `observer`.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from .sites import bits, copied, mark

EVENTS = 4000  # values that are recorded in one call of main, and in one of aux
EVIDENCE = 4  # bits: what is equal by chance in less than one of 16 cases
FEW = 4  # a site with more values in one call of aux has not decided which of them is the answer
PARTS = 8  # elements of a value that may be an answer


class Call:
    """A call of main: what its expressions and those of aux had as values."""

    def __init__(self, given: dict[int, Any]) -> None:
        self.given = given  # marks of main's arguments, by numbers below zero; 0 is all of them
        self.values: dict[int, list[Any]] = {}  # marks of main's sites, in order
        self.events = 0
        self.returned: list[Any] = []  # marks of aux's values
        self.helps: list[Help] = []
        self.result: Any = None
        self.raised: BaseException | None = None

    @property
    def outcome(self) -> Any:
        """What a run without the helper is to reach."""
        return ("raised", type(self.raised).__name__) if self.raised else ("result", mark(self.result))


class Returned:
    """What aux returned or raised."""

    def __init__(self, value: Any, raised: bool = False, iterates: bool = False) -> None:
        self.value, self.raised, self.iterates = value, raised, iterates
        self.mark = ("raised", type(value).__name__, mark(value.args)) if raised else mark(value)

    @classmethod
    def of(cls, aux: Callable[..., Any], args: Any, kwargs: Any) -> Returned:
        """Ask aux; an iterator becomes a list of its values."""
        try:
            value = aux(*args, **kwargs)
            iterates = hasattr(value, "__next__")
            return cls(list(itertools.islice(value, 10_000)) if iterates else value, iterates=iterates)
        except Exception as error:
            return cls(error, raised=True)

    def again(self) -> Any:
        """Return or raise it."""
        if self.raised:
            raise self.value
        return iter(self.value) if self.iterates else self.value


class Help:
    """A call of aux: the values of each of its sites."""

    def __init__(self, given: list[Any]) -> None:
        self.values: dict[Any, set[Any]] = {"given": set(map(mark, [given, *given]))}
        self.events = 0

    def see(self, site: Any, value: Any) -> None:
        """Record a value."""
        self.events += 1
        if self.events <= EVENTS:
            self.values.setdefault(site, set()).add(mark(value))

    def knows(self, given: dict[int, Any]) -> bool:
        """All arguments of main stood here: together, or each of them."""
        every = set().union(*self.values.values())
        return given[0] in every or all(given[at] in every for at in given if at)


class Knowledge:
    """What always holds: sites of main with one value or the value of another site, sites of aux with main's result."""

    def __init__(self) -> None:
        self.constant: dict[int, tuple[Any, Any]] = {}  # mark and value
        self._varies: set[int] = set()
        self._calls: dict[int, set[Any]] = {}  # main calls that reached a site
        self.equal: dict[int, set[int]] = {}
        self._bits: dict[int, int] = {}
        self._before: dict[int, Any] = {}
        self._helps: list[tuple[Any, dict[Any, set[Any]]]] = []

    def see(self, site: int, value: Any, marked: Any, last: dict[int, Any], call: Any) -> None:
        """A value of main, and the latest ones of all sites in this call."""
        if site not in self._varies:
            if self.constant.setdefault(site, (marked, copied(value)))[0] != marked:
                self._varies.add(site)
                del self.constant[site]
            else:
                self._calls.setdefault(site, set()).add(call)
        alike = self.equal.get(site)
        if alike is None:
            self.equal[site] = {other for other, there in last.items() if there == marked and other != site}
        elif alike:
            self.equal[site] = {other for other in alike if last.get(other, self) == marked}
        if self._before.get(site, self) != marked:
            self._bits[site] = self._bits.get(site, 0) + bits(marked)
            self._before[site] = marked

    def known(self) -> frozenset[int]:
        """Sites of main whose values main may know."""
        return frozenset(site for site in {*self.constant, *self.equal} if self.sources(site) or self.is_constant(site))

    def is_constant(self, site: int) -> bool:
        """Always the same, in several calls of main."""
        return site in self.constant and len(self._calls[site]) > 1

    def sources(self, site: int) -> set[int]:
        """Sites and arguments with the value of a site."""
        return self.equal.get(site, set()) if self._bits.get(site, 0) >= EVIDENCE else set()

    def add(self, call: Call) -> None:
        """Calls of aux that held main's arguments."""
        if call.raised is None:
            self._helps += [(mark(call.result), help.values) for help in call.helps if help.knows(call.given)]

    def aux_has(self, call: Call) -> bool:
        """Whether aux, with main's arguments, had main's result."""
        known = [help.values for help in call.helps if help.knows(call.given)] if call.raised is None else []
        return any(mark(call.result) in values.get(site, ()) for values in known for site in self.answers)

    @functools.cached_property
    def answers(self) -> set[Any]:
        """Sites of aux where main's result stands whenever they are reached, and hardly any other result."""
        results = {result for result, _ in self._helps}
        found: set[Any] = set()
        for site in {site for _, values in self._helps for site in values if site != "given"}:
            there = [(result, values[site]) for result, values in self._helps if site in values]
            hits = [result for result, values in there if result in values and len(values) <= FEW]
            others = [len((results - {result}) & values) for result, values in there]
            strong = sum(map(bits, hits)) >= EVIDENCE and (len(set(hits)) > 1 or bits(hits[0]) > 2)
            if len(hits) >= 0.9 * len(there) and strong and 2 * sum(map(bool, others)) <= len(there):
                found.add(site)
        return found


def see_parts(help: Help, value: Any) -> None:
    """Record what aux returned, and its first elements and the last."""
    help.see("value", value)
    if isinstance(value, (list, tuple, dict)) and value:
        named = value.items() if isinstance(value, dict) else [*enumerate(value[:PARTS]), ("last", value[-1])]
        for place, part in named:
            help.see(f"at {place}", part)
            if isinstance(part, (list, tuple)) and len(part) == 1:
                help.see(f"in {place}", part[0])
