"""Import of other libraries on use; the error of a missing or old library has the command that installs it."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement

OURS = "llm-dec-pomdp"


def require(extra: str) -> str:
    """Check that the requirements of an extra of this package are installed; return the command that installs them.

    Raises:
        ImportError: A requirement is missing or has another version than the extra needs.
    """
    command = f"pip install -e '.[{extra}]' (in the clone)"
    for needed in _requirements(extra):
        try:
            version = metadata.version(needed.name)
        except metadata.PackageNotFoundError as error:
            raise ImportError(
                f"{needed.name} is not installed, but the adapter {extra!r} needs it: {command}"
            ) from error
        if not needed.specifier.contains(version, prereleases=True):
            raise ImportError(
                f"{needed.name} {version} is installed, but the adapter {extra!r} needs {needed.specifier}: {command}"
            )
    return command


def library(name: str, extra: str) -> Any:
    """Import and return a module of a library that an extra of this package requires.

    Raises:
        ImportError: The library or one of its own requirements is missing, or has another version than the extra needs.
    """
    command = require(extra)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        cure = command if error.name == name.partition(".")[0] else f"pip install {error.name}"
        raise ImportError(f"{name} cannot be imported: {error.name!r} is not installed: {cure}") from error


@functools.cache
def _requirements(extra: str) -> list[Requirement]:
    """Return the requirements of an extra, from the metadata that pip reads."""
    declared = [Requirement(text) for text in metadata.requires(OURS) or ()]
    return [r for r in declared if r.marker and not r.marker.evaluate() and r.marker.evaluate({"extra": extra})]


def construct(make: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Any:
    """Return the result of a library's function for a name and options.

    Raises:
        RuntimeError: The function failed; the message has its error.
    """
    try:
        return make(name, **options)
    except Exception as error:
        reason = " ".join(re.sub("\x1b\\[[0-9;]*m|[*]", "", str(error)).split())
        raise RuntimeError(
            f"{make.__module__.partition('.')[0]} cannot make {name!r} with {dict(options)}: {type(error).__name__}: "
            f"{reason:.300}; correct the options, or install and download the missing parts that it names"
        ) from error
