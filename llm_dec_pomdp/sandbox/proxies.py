"""The judge's side of a program's objects: proxies in place of modules, classes and objects.

Plain values are sent. Every other object stays in the untrusted guest, and a `Remote` refers to it by number.
Comparisons that decide a test are computed here, on plain values: `==` of a Remote is identity, and `in` compares plain
items. A Remote never equals a plain value, so an object that claims to equal everything equals nothing. While tests
hold the Remote of an object, every answer with this object gives the same Remote, so that `is` works as usual.

If tests change a container that they received from an attribute, the change is repeated in the guest before the next
request. If a call changes its arguments, the arguments of the tests are changed, too.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import builtins
import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

from .codec import CodecError, encode
from .solution import ProgramError, Solution, UnsupportedError

# Modules for files and databases, which tests use in the process of the program.
NEAR_THE_PROGRAM = ("os", "sqlite3", "tempfile", "shutil", "zipfile", "glob", "pathlib", "xml", "unittest.mock")
MUTABLE = (list, dict, set, deque)
_REMEMBERED = 16  # number of recent containers whose changes by tests are sent back


class World:
    """The modules and objects of a program, for the tests of a job.

    Args:
        solution: Process of the program.
        modules: Names of its modules and of the packages that contain them.
    """

    def __init__(self, solution: Solution, modules: frozenset[str]) -> None:
        self._solution = solution
        self.modules = modules
        solution.keep, solution.kept = self._keep, self._kept
        self._expected = 0  # number of the process that the answer must come from
        self._remotes: WeakValueDictionary[int, Remote] = WeakValueDictionary()  # proxies of that process, by number
        self._named: WeakValueDictionary[tuple[str, ...], Remote] = WeakValueDictionary()  # by path
        self._got: deque[tuple[Remote, str, Any, bytes]] = deque(maxlen=_REMEMBERED)

    def ask(self, what: str, *parts: Any) -> Any:
        """Send a request to the guest and return its answer; see `guest_objects`."""
        self._solution.ready()
        if self._expected != self._solution.starts:
            self._begin_again()
        if self._got:
            self._hand_back()
        return self._solution.ask((what, *parts))

    def _begin_again(self) -> None:
        """Forget the objects of the ended process, and look up those with a path in the new process."""
        self._expected = self._solution.starts
        self._remotes.clear()
        self._got.clear()
        for remote in list(self._named.values()):
            with contextlib.suppress(Exception):  # a test that uses it fails then
                number_of(remote)

    def know(self, remote: Remote, number: int, path: tuple[str, ...]) -> None:
        """Register a Remote for the object of a number, and its path for a restart."""
        self._remotes.setdefault(number, remote)
        self._named.setdefault(path, remote)

    def got(self, owner: Remote, name: str, value: Any) -> None:
        """Remember a container that a test may change."""
        self._got.append((owner, name, value, encode(value, keep=self._keep)))

    def _hand_back(self) -> None:
        """Send the changes that tests made to copies of containers to the program."""
        got, self._got = self._got, deque(maxlen=_REMEMBERED)
        for owner, name, value, before in got:
            if encode(value, keep=self._keep) != before:
                self._solution.ask(("refill", owner, name, value))

    def call(self, owner: Remote, name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call an object, or an attribute of it by name, and apply the changes of the call to its arguments."""
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
        """The number of processes so far; objects live as long as their process."""
        return self._solution.starts

    def _keep(self, value: Any) -> int:
        if type(value) is not Remote:
            path = path_of(value)
            if not path:
                raise CodecError(f"{type(value).__name__} is no plain value")
            value = Remote(self, None, 0, path)
        return number_of(value)

    def _kept(self, number: int) -> Any:
        remote = self._remotes.get(number)
        if remote is None:
            remote = self._remotes[number] = Remote(self, number, self._expected)
        return remote

    def imported(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """Import a module for the tests: modules of the program are remote, all others belong to the judge."""
        if name in self.modules or {name, name.partition(".")[0]} & {*NEAR_THE_PROGRAM}:
            for part in fromlist or ():
                if f"{name}.{part}" in self.modules:
                    self.ask("import", f"{name}.{part}")
            top = name if fromlist else name.partition(".")[0]
            return self.find((top,), () if name == top else (name,))
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def find(self, path: tuple[str, ...], also: Sequence[str] = ()) -> Remote:
        """Return the object at a path; `also` names further submodules to import first."""
        along = (".".join(path[:end]) for end in range(2, len(path) + 1))
        for name in (*also, *(name for name in along if name in self.modules)):
            self.ask("import", name)
        found = self.ask("import", path[0])
        for name in path[1:]:
            found = self.ask("get", found, name)
        if type(found) is not Remote:
            raise UnsupportedError(f"{'.'.join(path)} is a plain value now")
        found_by(found, path, also)
        return found

    def builtins(self) -> dict[str, Any]:
        """Return the builtins of the tests."""
        opener = Remote(self, None, 0, ("builtins", "open"))
        return {**vars(builtins), "__import__": self.imported, "open": opener}


class Remote:
    """A proxy for an object of the program.

    Args:
        world: The program.
        number: Number of the object; None if it is found by `path`, even after a restart.
        start: Number of the process that knows the object.
        path: Path of an attribute: the name of the module, then the names of attributes.
    """

    __slots__ = ("__weakref__", "_also", "_number", "_path", "_start", "_world")

    def __init__(self, world: World, number: int | None, start: int, path: tuple[str, ...] = ()) -> None:
        # `_also`: submodules that are imported with the module.
        parts = {"_world": world, "_number": number, "_start": start, "_path": path, "_also": ()}
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        value = world_of(self).ask("get", self, name)
        path: tuple[str, ...] = object.__getattribute__(self, "_path")
        if path and type(value) is Remote:
            found_by(value, (*path, name))
        if type(value) in MUTABLE:
            world_of(self).got(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        world_of(self).ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        world_of(self).ask("del", self, name)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Call the object, or create an instance of it."""
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
    """Return a callable for `owner.name(...)`; for a Remote, one request gets and calls the attribute."""
    if type(owner) is not Remote:
        return getattr(owner, name)
    return lambda *positional, **named: world_of(owner).call(owner, name, positional, named)


def path_of(value: Any) -> tuple[str, ...]:
    """Return the path of a builtin function of the standard library, such as `datetime.now`; else ()."""
    if type(value) is not BuiltinFunctionType:
        return ()
    owner: Any = value.__self__
    module = owner.__module__ if isinstance(owner, type) else getattr(owner, "__name__", "")
    return (module, *value.__qualname__.split(".")) if module in sys.stdlib_module_names else ()


def world_of(remote: Remote) -> World:
    """Return the world of a proxy."""
    return object.__getattribute__(remote, "_world")


def found_by(remote: Remote, path: tuple[str, ...], also: Sequence[str] = ()) -> None:
    """Note the path of an object for a restart, unless it has one."""
    path = object.__getattribute__(remote, "_path") or path
    object.__setattr__(remote, "_path", path)
    known = object.__getattribute__(remote, "_also")
    object.__setattr__(remote, "_also", (*known, *(name for name in also if name not in known)))
    world_of(remote).know(remote, object.__getattribute__(remote, "_number"), path)


def number_of(remote: Remote) -> int:
    """Return the number of an object in the current process; raise ProgramError if it was lost with its process."""
    number, start, path, world = (
        object.__getattribute__(remote, name) for name in ("_number", "_start", "_path", "_world")
    )
    if number is None or start != world.starts:
        if not path:
            raise ProgramError("the object was lost when its process ended")
        number = object.__getattribute__(world.find(path, object.__getattribute__(remote, "_also")), "_number")
        object.__setattr__(remote, "_number", number)
        object.__setattr__(remote, "_start", world.starts)
        world.know(remote, number, path)
    return number


def exactly(kind: type[Any], value: Any) -> Any:
    """Return a value that is exactly of a type; raise UnsupportedError if it is of another type."""
    if type(value) is not kind:
        raise UnsupportedError(f"{type(value).__name__} in place of {kind.__name__}")
    return value


def refill(container: Any, now: Any) -> None:
    """Replace the items of a container by those of another one of its type."""
    container.clear()
    if type(container) in (dict, set):
        container.update(now)
    else:
        container.extend(now)


def packages_of(modules: Sequence[str]) -> frozenset[str]:
    """Return the modules and all packages above them."""
    names = set(modules)
    for module in modules:
        parts = module.split(".")
        names.update(".".join(parts[:end]) for end in range(1, len(parts)))
    return frozenset(names)


def test_module(world: World, prelude: str) -> ModuleType:
    """Return a module for tests that contains only the prelude of the problem."""
    module = ModuleType("tests")
    vars(module).update(__builtins__=world.builtins(), __method__=method)
    exec(compile(prelude, "<problem>", "exec", dont_inherit=True), vars(module))
    return module
