"""Runs in the process of a program and observes what its two functions exchange. This source is sent there.

Each function gets a namespace of its own and sees the other through a callable without the attributes of a Python
function. Nothing of ours stands in a namespace of the program, and an audit hook keeps the program from looking at
frames, code and the garbage collector. There are three ways to run, each in a process of its own:

* "constant": main runs as if aux had always returned its first value.
* "swapped": main runs as if aux had returned what it did in the latest earlier call of main in which that was something
  else. Where no earlier call asked aux: None, or empty values of the types it returned.
* "evidence": main's true results are given out. In addition, in random order, main is run on the same arguments as if
  aux had returned something else: its values of other calls, or its values altered. Only the values could tell main
  which run counts. Called with the secret, the entry point returns the conclusions of `evidence`.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import itertools
import os
import random
import sys
from collections.abc import Callable
from time import process_time
from typing import Any

from .coats import ALTERED, LONG, altered, copied, empty_like, extended, same, text_of
from .evidence import Call, alone, decodes, follows, hands_back, reads, repeats

SWAPS = 3  # other calls whose values are tried in one call of main
# CPU time of runs with other values. One may take LONGER times the longest true run, and at least SHORTEST seconds; all
# together may take TOGETHER times all true runs, and BESIDES seconds.
LONGER, SHORTEST = 2, 0.01
TOGETHER, BESIDES = 5, 0.5


class _Team:
    """Aux and main in namespaces of their own, and the record of their calls."""

    def __init__(self, sources: tuple[str, str], name: str, given: dict[str, Any], secret: str) -> None:
        helper, entry = dict(given), dict(given)
        helper[name] = entry["aux"] = None
        exec(compile(sources[0], "<solution>", "exec"), helper)
        exec(compile(sources[1], "<solution>", "exec"), entry)
        self._aux, self._main = helper["aux"], entry[name]
        entry["aux"], helper[name] = _opaque(self._asked, self._aux), _opaque(self._main, self._main)
        self._secret = secret
        self._stop = type(secret[:8], (BaseException,), {})
        self._random = random.Random(secret)
        self._calls: list[Call] = []
        self._call = Call([])
        self._values: list[Any] | None = None
        self._count = 0
        self._first: list[Any] = []
        self._longest = self._true = self._other = 0.0  # CPU seconds
        self._found: dict[str, bool] | None = None

    def _asked(self, *args: Any, **kwargs: Any) -> Any:
        """Main calls aux."""
        if self._values is not None:
            self._count += 1
            return copied(self._values[(self._count - 1) % len(self._values)])
        kept = len(self._call.asked) < LONG
        given = copied([*args, *kwargs.values()]) if kept else []
        value = self._aux(*args, **kwargs)
        if hasattr(value, "__next__"):
            value = list(itertools.islice(value, 10_000))
            self._call.asked += [(given, value)] * kept
            return iter(value)
        if kept:
            self._call.asked.append((given, copied(value)))
        return value

    def _run(self, call: Call, values: list[Any] | None, args: Any, kwargs: Any) -> tuple[list[Any], BaseException]:
        """Main's result in a list, or an empty one and what it raised."""
        args, kwargs = copied((args, kwargs))
        self._call, self._values, self._count = call, values, 0
        started = process_time()
        try:
            if values is not None:
                return [self._bounded(self._main, args, kwargs)], self._stop()
            return [self._main(*args, **kwargs)], self._stop()
        except BaseException as error:
            return [], error
        finally:
            if values is None:
                self._longest = max(self._longest, process_time() - started)
                self._true += process_time() - started
            self._values = None

    def _bounded(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function that may never end."""
        started = process_time()
        end = started + min(max(SHORTEST, LONGER * self._longest), BESIDES + TOGETHER * self._true - self._other)

        def look(frame: Any, event: str, argument: Any) -> Any:
            if process_time() > end:
                raise self._stop
            return look

        sys.settrace(look)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(None)
            self._other += process_time() - started

    def constant(self, *args: Any, **kwargs: Any) -> Any:
        """Main as if aux always returned its first value."""
        call = Call([])
        result, error = self._run(call, None, args, kwargs)
        self._first = self._first or call.values[:1]
        if self._first:
            result, error = self._run(call, self._first, args, kwargs)
        return _given_out(result, error)

    def swapped(self, *args: Any, **kwargs: Any) -> Any:
        """Main as if aux had returned what it did in another call."""
        call = Call([])
        result, error = self._run(call, None, args, kwargs)
        for values in self._others(call):
            other, raised = self._run(call, values, args, kwargs)
            if not other or not result or not same(other[0], result[0]):
                result, error = other, raised
                break
        self._calls.append(call)
        return _given_out(result, error)

    def _others(self, call: Call) -> list[list[Any]]:
        mine = text_of(call.values)
        for earlier in reversed(self._calls):
            if earlier.asked and call.asked and text_of(earlier.values) != mine:
                return [earlier.values]
        if any(earlier.asked for earlier in self._calls) or not call.asked:
            return []
        return [[None] * len(call.asked), [empty_like(value) for value in call.values]]

    def evidence(self, *args: Any, **kwargs: Any) -> Any:
        """Main as it is, with runs on other values in between; the conclusions, when asked with the secret."""
        if args and type(args[0]) is str and args[0] == self._secret:
            return self._conclusion()[args[1]]
        call = Call(copied([*args, *kwargs.values()]))
        first, _ = self._run(call, None, args, kwargs)
        plan: list[list[Any] | None] = [None, *self._other_values(call)]
        call.asked.clear()
        self._random.shuffle(plan)
        error: BaseException = self._stop()
        for values in plan:
            result, raised = self._run(call, values, args, kwargs)
            if values is None:
                call.result, error = result, raised
                call.steady = [*map(type, first)] == [*map(type, result)]
            else:
                call.swapped.append((text_of(values), copied(result)))
        self._calls.append(call)
        try:
            call.alone = [copied(self._bounded(self._aux, *copied((args, kwargs))))]
        except BaseException:
            call.alone = []
        result, call.result = call.result, copied(call.result)
        return _given_out(result, error)

    def _other_values(self, call: Call) -> list[list[Any]]:
        """What aux might have returned instead: values of other calls; its own altered (one or all), or in another
        order; arguments."""
        mine, draw = call.values, self._random
        different = {text_of(earlier.values): earlier.values for earlier in self._calls if earlier.asked and mine}
        different.pop(text_of(mine), None)
        others = draw.sample(list(different.values()), min(SWAPS, len(different)))
        if mine:
            arguments = [given for given in (*call.given, *call.asked[0][0]) if type(given) is type(mine[0])]
            others += [[given] * len(mine) for given in arguments[:2]]
            added = (*call.given, *call.asked[0][0])[:3]
            others += [[extended(value, given) for value in mine] for given in added]
            own = [[altered(value, way) for value in mine] for way in range(ALTERED)]
            own += [mine[::-1], mine[1:] + mine[:1]]
            for place, way in itertools.product(draw.sample(range(len(mine)), min(2, len(mine))), range(2)):
                own.append([*mine[:place], altered(mine[place], way), *mine[place + 1 :]])
            if all(map(_even, mine)):
                call.altered = {text_of(values) for values in own if [*map(len, values)] == [*map(len, mine)]}
            others += own
        return list({text_of(values): values for values in others if text_of(values) != text_of(mine)}.values())

    def _conclusion(self) -> dict[str, bool]:
        if self._found is None:
            calls = self._calls
            self._found = {
                "aux": follows(calls) and not hands_back(calls) and not repeats(calls),
                "main": not decodes(calls) and not reads(calls) and not alone(calls),
            }
        return self._found


def _even(value: Any) -> bool:
    """No part gets its meaning from its place: a text, or a list of one type. A tuple may be a record."""
    return type(value) in (str, bytes) or (type(value) is list and len(set(map(type, value))) == 1)


def _given_out(result: list[Any], error: BaseException) -> Any:
    if not result:
        raise error
    return result[0]


def _opaque(function: Callable[..., Any], like: Any) -> Callable[..., Any]:
    """A C function that calls a Python function and reveals nothing of it."""
    hidden = functools.lru_cache(maxsize=0)(function)
    hidden.__dict__.clear()
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(hidden, name, getattr(like, name, None))
    return hidden


# --- what programs must not look at -----------------------------------------------------------------------------------

FORBIDDEN = (
    "sys._getframe sys._getframemodulename sys._current_frames sys._current_exceptions sys.settrace sys.setprofile "
    "gc.get_objects gc.get_referrers gc.get_referents code.__new__ function.__new__ marshal.loads"
).split()
OF_FRAMES = "tb_frame gi_frame cr_frame ag_frame f_code".split()
LOOKERS = "inspect.py traceback.py pdb.py bdb.py trace.py".split()


def _watch(own: str) -> None:
    """From now on no program in this process sees frames, code, or all objects; the library may, for itself."""
    library = os.__file__.rpartition(os.sep)[0] + os.sep
    frame: Callable[[int], Any] = getattr(sys, "_getframe")  # noqa: B009
    forbidden, of_frames, lookers = frozenset(FORBIDDEN), frozenset(OF_FRAMES), frozenset(LOOKERS)
    asking: list[str] = []

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        of_object = event == "object.__getattr__"
        posing = event == "compile" and str(arguments[1]).startswith(library)
        if asking or not (of_object or posing or event in forbidden or event[:7] == "ctypes."):
            return
        asking.append(event)
        try:
            caller = frame(1).f_code.co_filename
        finally:
            asking.pop()
        looks = caller.rpartition(os.sep)[2] in lookers and (not of_object or arguments[1] in of_frames)
        if caller != own and (looks or not caller.startswith((library, "<frozen "))):
            raise RuntimeError("programs do not look at their surroundings here")

    sys.addaudithook(look)


def observed(sources: tuple[str, str], name: str, given: dict[str, Any], way: str, secret: str) -> Callable[..., Any]:
    """The entry point of a program under observation.

    Args:
        sources: Source of aux and of main.
        name: The entry point.
        given: Names that the problem gives.
        way: "constant", "swapped" or "evidence".
        secret: The argument with which the entry point returns the conclusions.
    """
    _watch(__name__)
    team = _Team(sources, name, given, secret)
    return _opaque(getattr(team, way), None)
