"""The judge's side of a program's objects: what tests hold in place of modules, classes and objects.

Plain values travel; everything else stays in the untrusted room, and a `Remote` names it by number. Whatever decides a
test is computed here, on plain values: `==` of a Remote is identity, `in` looks through plain items. A Remote is never
equal to a plain value, so that an object that claims to equal everything equals nothing.

What tests do to a container that they got from an attribute is done to it there too, before the program is asked
again; and what a call does to its arguments is done to those of the tests.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import builtins
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, ModuleType
from typing import Any

from .codec import CodecError, encode
from .solution import ProgramError, Solution, UnsupportedError

# Modules with which tests reach files and data bases; they run where the program runs, which has these.
NEAR_THE_PROGRAM = ("os", "sqlite3", "tempfile", "shutil", "zipfile", "glob", "pathlib", "xml", "unittest.mock")
MUTABLE = (list, dict, set, deque)
_REMEMBERED = 16  # containers that tests got last, and may change


class World:
    """The program as the tests of a job see it.

    Args:
        solution: Its process.
        modules: Names of its modules and of the packages that hold them.
    """

    def __init__(self, solution: Solution, modules: frozenset[str]) -> None:
        self._solution = solution
        self.modules = modules
        solution.keep, solution.kept = self._keep, self._kept
        self._expected = 0  # the start of the process that an answer is from
        self._got: deque[tuple[Remote, str, Any, bytes]] = deque(maxlen=_REMEMBERED)

    def ask(self, what: str, *parts: Any) -> Any:
        """Have something done; see `objects`."""
        if self._got:
            self._hand_back()
        return self._asked(what, *parts)

    def _asked(self, what: str, *parts: Any) -> Any:
        self._solution.ready()
        self._expected = self._solution.starts
        return self._solution.ask((what, *parts))

    def got(self, owner: Remote, name: str, value: Any) -> None:
        """Remember a container that a test may change."""
        self._got.append((owner, name, value, encode(value, keep=self._keep)))

    def _hand_back(self) -> None:
        """Do to the program's containers what the test has done to their copies."""
        got, self._got = self._got, deque(maxlen=_REMEMBERED)
        for owner, name, value, before in got:
            if encode(value, keep=self._keep) != before:
                self._asked("refill", owner, name, value)

    def call(self, owner: Remote, name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call something, by its name if it is of an owner, and do to the arguments what the call did."""
        given = [value for value in (*positional, *named.values()) if type(value) in MUTABLE]
        if not given:
            return self.ask("call", owner, name, positional, named)
        result, changed = exactly(tuple, self.ask("call with", owner, name, positional, named))
        for value, now in zip(given, exactly(list, changed), strict=True):
            if type(value) is type(now):
                refill(value, now)
        return result

    @property
    def starts(self) -> int:
        """How many processes there have been; objects live as long as theirs."""
        return self._solution.starts

    def _keep(self, value: Any) -> int:
        if type(value) is not Remote:
            path = path_of(value)
            if not path:
                raise CodecError(f"{type(value).__name__} is no plain value")
            value = Remote(self, None, 0, path)
        return number_of(value)

    def _kept(self, number: int) -> Any:
        return Remote(self, number, self._expected)

    def imported(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """`__import__` of the tests: modules of the program are remote, all others are the judge's."""
        if name in self.modules or {name, name.partition(".")[0]} & {*NEAR_THE_PROGRAM}:
            for part in fromlist or ():
                if f"{name}.{part}" in self.modules:
                    self.ask("import", f"{name}.{part}")
            return Remote(self, None, 0, (name if fromlist else name.partition(".")[0],), also=name)
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def builtins(self) -> dict[str, Any]:
        """Builtins of the tests."""
        opener = Remote(self, None, 0, ("builtins", "open"))
        return {**vars(builtins), "__import__": self.imported, "open": opener}


class Remote:
    """An object of the program.

    Args:
        world: Where it lives.
        number: Of the object; None where it is found by `path`, again after a restart.
        start: The process that knows the number.
        path: Of a module's attribute: the module, and names.
        also: A submodule that is imported with it.
    """

    __slots__ = ("_also", "_number", "_path", "_start", "_world")

    def __init__(
        self, world: World, number: int | None, start: int, path: tuple[str, ...] = (), also: str = ""
    ) -> None:
        for name, value in zip(self.__slots__, (also, number, path, start, world), strict=True):
            object.__setattr__(self, name, value)
        if path and not path[1:]:
            number_of(self)  # an import that fails, fails here

    def __getattr__(self, name: str) -> Any:
        value = world_of(self).ask("get", self, name)
        path: tuple[str, ...] = object.__getattribute__(self, "_path")
        if path and type(value) is Remote:
            object.__setattr__(value, "_path", (*path, name))
        if type(value) in MUTABLE:
            world_of(self).got(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        world_of(self).ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        world_of(self).ask("del", self, name)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Call it, or make an object of it."""
        return world_of(self).call(self, "", positional, named)

    def __getitem__(self, key: Any) -> Any:
        return world_of(self).ask("item", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        world_of(self).ask("put", self, key, value)

    def __delitem__(self, key: Any) -> None:
        world_of(self).ask("drop", self, key)

    def __iter__(self) -> Iterator[Any]:
        return iter(exactly(list, world_of(self).ask("items", self)))

    def __contains__(self, item: Any) -> bool:
        return any(item is other or item == other for other in self)

    def __len__(self) -> int:
        return exactly(int, world_of(self).ask("length", self))

    def __bool__(self) -> bool:
        return exactly(bool, world_of(self).ask("truth", self))

    def __str__(self) -> str:
        return exactly(str, world_of(self).ask("text", self))

    def __repr__(self) -> str:
        return exactly(str, world_of(self).ask("shown", self))

    def __enter__(self) -> Any:
        return world_of(self).ask("enter", self)

    def __exit__(self, *error: object) -> None:
        world_of(self).ask("exit", self)

    def __instancecheck__(self, value: Any) -> bool:
        return type(value) is Remote and exactly(bool, world_of(self).ask("is a", value, self))

    def __eq__(self, other: object) -> bool:
        return type(other) is Remote and number_of(self) == number_of(other)

    def __hash__(self) -> int:
        return hash(number_of(self))


def method(owner: Any, name: str) -> Callable[..., Any]:
    """What `owner.name` is for who calls it at once: of a Remote, one question is enough for both."""
    if type(owner) is not Remote:
        return getattr(owner, name)
    return lambda *positional, **named: world_of(owner).call(owner, name, positional, named)


def path_of(value: Any) -> tuple[str, ...]:
    """Where a builtin function of the standard library is found, such as `datetime.now`; () for anything else."""
    if type(value) is not BuiltinFunctionType:
        return ()
    owner: Any = value.__self__
    module = owner.__module__ if isinstance(owner, type) else getattr(owner, "__name__", "")
    return (module, *value.__qualname__.split(".")) if module in sys.stdlib_module_names else ()


def world_of(remote: Remote) -> World:
    """Where an object lives."""
    return object.__getattribute__(remote, "_world")


def number_of(remote: Remote) -> int:
    """The number of an object in the process that runs now. ProgramError: it was lost with an earlier process."""
    also, number, path, start, world = (object.__getattribute__(remote, name) for name in Remote.__slots__)
    if number is None or start != world.starts:
        if not path:
            raise ProgramError("the object was lost when its process ended")
        found = world.ask("import", also or path[0])
        if also and also != path[0]:
            found = world.ask("import", path[0])
        for name in path[1:]:
            found = world.ask("get", found, name)
        if type(found) is not Remote:
            raise UnsupportedError(f"{'.'.join(path)} is a plain value now")
        number = object.__getattribute__(found, "_number")
        object.__setattr__(remote, "_number", number)
        object.__setattr__(remote, "_start", world.starts)
    return number


def exactly(kind: type[Any], value: Any) -> Any:
    """A value that is exactly of a type. UnsupportedError: it is of another."""
    if type(value) is not kind:
        raise UnsupportedError(f"{type(value).__name__} in place of {kind.__name__}")
    return value


def refill(container: Any, now: Any) -> None:
    """Give a container the items of another of its type."""
    container.clear()
    if type(container) in (dict, set):
        container.update(now)
    else:
        container.extend(now)


def packages_of(modules: Sequence[str]) -> frozenset[str]:
    """The modules and all packages above them."""
    names = set(modules)
    for module in modules:
        parts = module.split(".")
        names.update(".".join(parts[:end]) for end in range(1, len(parts)))
    return frozenset(names)


def test_module(world: World, prelude: str) -> ModuleType:
    """An empty module for tests, with what a problem gives in scope."""
    module = ModuleType("tests")
    vars(module).update(__builtins__=world.builtins(), __method__=method)
    exec(compile(prelude, "<problem>", "exec", dont_inherit=True), vars(module))
    return module
