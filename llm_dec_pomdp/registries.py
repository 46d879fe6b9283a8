"""Registries of environments, algorithms and other extensions, which are imported on first use.

A name maps to `"module:attribute"` or to a callable. Other packages add names with `register` or through an entry
point. The error of an unknown name lists the nearest names.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

_SHOWN = 50  # maximum number of names in a message


class UnknownNameError(KeyError):
    """A name is unknown. Its text is the message without quotes, unlike the text of a plain KeyError."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a phrase for error messages with the known names nearest to `name`, or all if none is near."""
    names = sorted(known)
    short = [whole for whole in names if len(str(name)) > 1 and _initials(whole) == name]  # lr: learning_rate
    close = short or difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return "known: " + (", ".join(names[:_SHOWN]) or "none") + more


def _initials(name: str) -> str:
    return "".join(part[:1] for part in name.split("_"))


@dataclass(frozen=True)
class Spec:
    """A registered name and its callable.

    Attributes:
        name: The registered id.
        entry_point: `"package.module:attribute"` or a callable.
        kwargs: Default arguments of the callable; the caller's arguments override them.
    """

    name: str
    entry_point: str | Callable[..., Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def load(self) -> Callable[..., Any]:
        """Return the callable; import its module if the entry point is a string.

        Raises:
            ImportError: The module or its attribute is missing.
        """
        if callable(self.entry_point):
            return self.entry_point
        return load_attribute(self.entry_point, what=self.name)

    def ring(self) -> str:
        """Return "core", "contrib", or the name of the package that the entry point is in."""
        origin = self.entry_point if isinstance(self.entry_point, str) else self.entry_point.__module__
        package, _, module = origin.partition(":")[0].partition(".")
        own = "contrib" if module.startswith("contrib.") else "core"
        return own if package == __package__ else package

    def about(self) -> str:
        """Return the first line of the callable's docstring, without importing its module if possible.

        Raises:
            ImportError: There is no such module, or it does not define the name.
        """
        if callable(self.entry_point):
            return _first_line(self.entry_point.__doc__)
        module_name, _, attribute = self.entry_point.partition(":")
        source = None if module_name in sys.modules else importlib.util.find_spec(module_name)
        if source is not None and source.origin is not None and source.origin.endswith(".py"):
            for node in ast.parse(Path(source.origin).read_bytes()).body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == attribute:
                    return _first_line(ast.get_docstring(node))
        return _first_line(self.load().__doc__)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the callable, with the default arguments."""
        return self.load()(*args, **{**self.kwargs, **kwargs})


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().partition("\n")[0]


def load_attribute(path: str, what: str) -> Callable[..., Any]:
    """Import `"package.module:attribute"` and return the attribute.

    Raises:
        ImportError: The module or the attribute is missing; the message begins with `what`.
    """
    module_name, _, attribute = path.partition(":")
    if not attribute:
        raise ImportError(f"{what}: entry point {path!r} has no attribute; write it as 'package.module:Attribute'")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        itself = error.name is not None and f"{module_name}.".startswith(f"{error.name}.")
        where = f", and no file of the working folder {str(Path.cwd())!r}" if itself else ""
        raise ImportError(
            f"{what}: importing {module_name!r} failed because {error.name!r} is not installed{where}; install it first"
            + (", correct its name, or go to the folder of its file" if itself else "")
        ) from error
    if attribute not in vars(module):
        raise ImportError(f"{what}: module {module_name!r} has no {attribute!r}; {nearest(attribute, vars(module))}")
    loaded: Callable[..., Any] = vars(module)[attribute]
    return loaded


class Registry(Mapping[str, Spec]):
    """A read-only mapping from name to `Spec`, with `register` to add to it.

    Args:
        kind: The kind of the names, for messages, such as "environment".
        group: The entry-point group through which installed packages add names. The name of an entry point is the id,
            and its value is `"module:attribute"`.
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self.group = group
        self._specs: dict[str, Spec] = {}
        self._announced: dict[str, Spec] | None = None

    def register(self, name: str, entry_point: str | Callable[..., Any], **kwargs: Any) -> None:
        """Add a name.

        Args:
            name: The id.
            entry_point: `"package.module:attribute"` (imported on first use) or a callable.
            kwargs: Default arguments of the callable.

        Raises:
            ValueError: The name is registered with something else.
        """
        self.add(Spec(name, entry_point, kwargs))

    def add(self, spec: Spec) -> None:
        """Add a spec; see `register`."""
        if self._specs.get(spec.name, spec) != spec:
            there = self._specs[spec.name].entry_point
            raise ValueError(f"{self.kind} {spec.name!r} is registered already, as {there!r}; choose another name")
        self._specs[spec.name] = spec

    def find(self, name: str) -> Spec:
        """Return the spec of a name.

        Raises:
            UnknownNameError: The name is unknown; the message has the nearest names.
        """
        if name in self._specs:
            return self._specs[name]
        announced = self._entry_points()
        if name in announced:
            return announced[name]
        raise UnknownNameError(f"no {self.kind} {name!r}; {nearest(name, self)}")

    def _entry_points(self) -> dict[str, Spec]:
        if self._announced is None:
            points = metadata.entry_points(group=self.group)
            self._announced = {point.name: Spec(point.name, point.value) for point in points}
        return self._announced

    def __getitem__(self, name: str) -> Spec:
        return self.find(name)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._specs, **self._entry_points()})

    def __len__(self) -> int:
        return len({**self._entry_points(), **self._specs})
