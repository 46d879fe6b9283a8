"""The untrusted guest for programs of several files: it imports their modules and keeps their objects by number.

A value that is not plain stays here, and its number is sent; see `proxies` for the other side. No verdict is made in
this process: generated code may change all of it.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import importlib
import operator
import random
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import islice
from types import ModuleType
from typing import Any, NoReturn

from . import codec, guest

MOST_ITEMS = 100_000  # largest number of items of an iterable that are sent


class Files(MetaPathFinder, InspectLoader):
    """An importer of source files by path, in place of a disk; loaded modules have priority, as usual."""

    def __init__(self, files: Sequence[tuple[str, str]]) -> None:
        self.sources = {module_of(path): (path, source) for path, source in files if path.endswith(".py")}
        self.packages = {name.rpartition(".")[0] for name in self.sources} | {
            module_of(path) for path, _ in files if path.endswith("/__init__.py")
        }

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        if fullname not in self.sources and fullname not in self.packages:
            return None
        return ModuleSpec(fullname, self, is_package=fullname in self.packages)

    def is_package(self, fullname: str) -> bool:
        """See `InspectLoader`."""
        return fullname in self.packages

    def get_source(self, fullname: str) -> str:
        """See `InspectLoader`."""
        return self.sources.get(fullname, ("", ""))[1]

    def get_code(self, fullname: str) -> Any:
        """See `InspectLoader`."""
        path, source = self.sources.get(fullname, (fullname, ""))
        return compile(source, path, "exec", dont_inherit=True)


def module_of(path: str) -> str:
    """Return the module name of a file: `shop/cart.py` is `shop.cart`, `shop/__init__.py` is `shop`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class Objects:
    """The objects of the program by number, and the operations on them."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}  # by id

    def keep(self, value: Any) -> int:
        """Return the number of an object, the same one each time."""
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return number

    def kept(self, number: int) -> Any:
        """Return the object of a number."""
        return self.objects[number]

    def do(self, what: str, *parts: Any) -> Any:
        """Execute one request of `proxies`."""
        return _DOES[what](*parts)


def call(owner: Any, name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the result of a call of an object, or of its attribute of this name."""
    return (getattr(owner, name) if name else owner)(*positional, **named)


def call_with(owner: Any, name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return the result of a call, and the arguments that it may have changed."""
    given = [value for value in (*positional, *named.values()) if type(value) in (list, dict, set, deque)]
    return call(owner, name, positional, named), given


def refill(owner: Any, name: str, now: Any) -> None:
    """Replace the items of the container in an attribute."""
    container = getattr(owner, name)
    container.clear()
    (container.update if isinstance(container, (dict, set)) else container.extend)(now)


_DOES: Mapping[str, Callable[..., Any]] = {
    "import": importlib.import_module,
    "get": getattr,
    "set": setattr,
    "del": delattr,
    "call": call,
    "call with": call_with,
    "refill": refill,
    "item": operator.getitem,
    "put": operator.setitem,
    "drop": operator.delitem,
    "items": lambda value: list(islice(iter(value), MOST_ITEMS)),
    "length": len,
    "truth": bool,
    "text": str,
    "shown": repr,
    "is a": isinstance,
    "enter": lambda value: type(value).__enter__(value),
    "exit": lambda value: type(value).__exit__(value, None, None, None),
}


def serve(number: int, files: Sequence[tuple[str, str]]) -> NoReturn:
    """Answer frames until the judge closes the connection; `files` are paths and sources."""
    random.seed(0)  # programs with random numbers have the same ones every time
    sys.meta_path.insert(0, Files(files))
    objects = Objects()
    answer: tuple[Any, ...] = ("loaded",)
    while True:
        guest.send(number, answer, keep=objects.keep)
        number, body = guest.receive()
        try:
            answer = ("value", objects.do(*codec.decode(body, low=True, kept=objects.kept)))
        except BaseException as error:  # every exception of the program, including SystemExit, is its outcome
            answer = guest.describe(error)
