"""Runs in the process of a program and finds out which tests one of its functions decides alone.

A test needs both functions where neither of these holds:

* Main decides it alone: main still gives the result when it gets values that aux returned elsewhere, or what it gave
  to aux. What main knows anyway stays as it was: an expression that had the same value in all calls, or always that of
  an argument of main or of an earlier expression, has this value again, if main holds it.
* Aux decides it alone: in one call, aux held all arguments of main, in whatever form main handed them over or because
  it is asked in place of main, and one of its expressions that always has main's result had it.

So a code, a check of a token or a part of an answer shows by what stands before and after it, and needs no name here.

The tests run once in each of `MODES`: "learn" records all values; "measure" runs the same calls, with runs in between
in which aux's values are withheld; the others give out only the results that one function decides alone. Each function
gets a namespace of its own and sees the other through a callable without the attributes of a Python function. This
source is sent to the process of a program, after the modules that it imports.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

from .knowledge import EVENTS, Call, Help, Knowledge, Returned, see_parts
from .replay import Replay
from .sites import copied, hooked, mark
from .surroundings import opaque, watch

MODES = ("learn", "measure", "withheld", "echoed", "aux alone")
TRUE_RUNS = 2  # the modes in which every call is answered by the program as it is
HELPS = 16  # calls of aux in one of main that are recorded
REPLAYS = 2
POOL = 64  # values of aux that are kept


class _Team:
    """Aux and main in namespaces of their own, and what is known of their calls."""

    def __init__(self, sources: tuple[str, str], name: str, given: dict[str, Any], secret: str) -> None:
        self._sources, self._name, self._given = sources, name, given
        self._secret, self._stop = secret, type(secret[:8], (BaseException,), {})
        self._random = random.Random(secret)
        self._call: Call | None = None
        self._help: Help | None = None
        self._mode = "learn"
        self._last: dict[int, Any] = {}
        self._key: Any = None
        self._replay: Replay | None = None
        self._echoes = False
        self.knowledge = Knowledge()
        self._pool: dict[Any, Any] = {}
        self._calls: dict[Any, Call] = {}
        self._measured: dict[Any, Call] = {}  # by main's arguments
        self._decided: dict[Any, tuple[bool, ...]] = {}  # for each of the last modes
        helper = dict(given)
        helper[name] = opaque(lambda *args, **kwargs: self._main(*args, **kwargs), None)
        exec(hooked(sources[0], opaque(self._see_aux, None), opaque(self._see_aux, None), ()), helper)
        self._aux = helper["aux"]
        self._main = self._loaded(frozenset())

    def _loaded(self, later: frozenset[int]) -> Callable[..., Any]:
        entry = dict(self._given)
        entry[self._name] = entry["aux"] = None
        see, put_off = opaque(self._see_main, None), opaque(self._put_off, None)
        exec(hooked(self._sources[1], see, put_off, later), entry)
        entry["aux"] = opaque(self._asked, self._aux)
        return entry[self._name]

    # --- hooks ---

    def _see_aux(self, site: int, value: Any) -> Any:
        earlier = self._call.helps[-1:] if self._call else []
        help = self._help or next(iter(earlier), None)
        if help:  # a function that aux returned works for its last call
            help.see(site, value)
            if help.events > 50 * EVENTS and self._call is None:
                raise self._stop
        return value

    def _see_main(self, site: int, value: Any) -> Any:
        if self._replay is not None:
            return self._replay.see(site, value)
        call = self._call
        if self._help is not None:  # aux calls a function of main
            self._help.see(-site, value)
        if call is not None:
            call.events += 1
            if call.events <= EVENTS:
                marked = mark(value)
                call.values.setdefault(site, []).append(marked)
                if self._mode == "learn":
                    self.knowledge.see(site, value, marked, self._last, self._key)
                self._last[site] = marked
        return value

    def _put_off(self, site: int, value: Callable[[], Any]) -> Any:
        if self._replay is None:
            return self._see_main(site, value())
        try:
            found = value()
        except Exception:
            return self._replay.instead(site)
        return self._replay.see(site, found)

    def _asked(self, *args: Any, **kwargs: Any) -> Any:
        """Main calls aux."""
        given = [*args, *kwargs.values()]
        if self._replay is not None:
            return self._replay.returned(given if self._echoes else [], self._pool, self._random)
        call = self._call
        if call is None or len(call.returned) >= EVENTS:
            return self._aux(*args, **kwargs)
        outer, self._help = self._help, Help(copied(given))
        try:
            returned = Returned.of(self._aux, args, kwargs)
        finally:
            if len(call.helps) < HELPS:
                call.helps.append(self._help)
            self._help = outer
        call.returned.append(returned.mark)
        if len(self._pool) < POOL:
            self._pool.setdefault(returned.mark, Returned(copied(returned.value), returned.raised, returned.iterates))
        if len(call.helps) <= HELPS:
            see_parts(call.helps[-1], returned.value)
        return returned.again()

    # --- runs ---

    def true(self, args: Any, kwargs: Any) -> Call:
        """A run as it is."""
        given = [*args, *kwargs.values()]
        marks = {-at: mark(value) for at, value in enumerate(given, 1)} | {0: mark(given)}
        self._call, self._last, self._key = Call(marks), dict(marks), mark(given)
        args, kwargs = copied((args, kwargs))
        random.seed(repr(self._key))  # runs differ in nothing but what aux says
        try:
            self._call.result = self._main(*args, **kwargs)
        except BaseException as error:
            self._call.raised = error
        finally:
            call, self._call = self._call, None
        return call

    def without(self, call: Call, args: Any, kwargs: Any, echo: bool) -> bool:
        """Whether main reaches the result of a call without what aux said in it, or if aux returned its argument."""
        args, kwargs = copied((args, kwargs))
        self._replay = Replay(call, self.knowledge, [*args, *kwargs.values()], self._stop)
        self._echoes = echo
        random.seed(repr(call.given[0]))
        try:
            outcome = ("result", mark(self._main(*args, **kwargs)))
        except BaseException as error:
            outcome = ("raised", type(error).__name__)
        finally:
            self._replay = None
        return outcome == call.outcome

    def ask_aux(self, call: Call, args: Any, kwargs: Any) -> None:
        """Record what aux does in place of main."""
        args, kwargs = copied((args, kwargs))
        self._help = Help([*args, *kwargs.values()])
        with contextlib.suppress(BaseException):
            see_parts(self._help, self._aux(*args, **kwargs))
        call.helps.append(self._help)
        self._help = None

    def learn(self, *args: Any, **kwargs: Any) -> Any:
        """Main as it is."""
        call = self.true(args, kwargs)
        self._calls[mark([*args, *kwargs.values()])] = call
        self.ask_aux(call, args, kwargs)
        self.knowledge.add(call)
        call.helps = []
        return _given_out(call)

    def measure(self, *args: Any, **kwargs: Any) -> Any:
        """Main as it is, with other runs in between that only differ in what aux says."""
        key = mark([*args, *kwargs.values()])
        earlier = self._calls.get(key)
        plan = ["as it is", "echo", *["other"] * REPLAYS]
        call = earlier
        if call is None or earlier is None or earlier.raised:
            call = earlier = self.true(args, kwargs)
            plan = plan[1:]
        self._random.shuffle(plan)
        reached: dict[str, bool] = {}
        for run in plan:
            if run == "as it is":
                call = self.true(args, kwargs)
            else:
                reached[run] = reached.get(run, True) and self.without(earlier, args, kwargs, run == "echo")
        self.ask_aux(call, args, kwargs)
        self._decided[key] = (reached["other"], reached["echo"], self.knowledge.aux_has(call))
        call.helps = []
        self._measured[key] = call
        return _given_out(call)

    def decided(self, *args: Any, **kwargs: Any) -> Any:
        """Main, where the result stands without the other function in the sense of this mode; else an error."""
        key = mark([*args, *kwargs.values()])
        if key not in self._decided:
            self.measure(*args, **kwargs)
        if not self._decided[key][MODES.index(self._mode) - TRUE_RUNS]:
            raise self._stop
        call, measured = self.true(args, kwargs), self._measured[key]
        return _given_out(
            call if call.outcome == measured.outcome else measured
        )  # what changes by itself is no evidence

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the tests call; with the secret, another mode begins."""
        if len(args) == 2 and type(args[0]) is str and args[0] == self._secret:
            self._mode = args[1]
            if self._mode == "measure":
                self._main = self._loaded(self.knowledge.known())
            return None
        run = {"learn": self.learn, "measure": self.measure}.get(self._mode, self.decided)
        return run(*args, **kwargs)


def _given_out(call: Call) -> Any:
    if call.raised:
        raise call.raised
    return call.result


def observed(sources: tuple[str, str], name: str, given: dict[str, Any], secret: str) -> Callable[..., Any]:
    """The entry point of a program under observation.

    Args:
        sources: Source of aux and of main.
        name: The entry point.
        given: Names that the problem gives.
        secret: Called with it and a mode, the entry point changes its mode.
    """
    watch(__name__)
    return opaque(_Team(sources, name, given, secret).__call__, None)
