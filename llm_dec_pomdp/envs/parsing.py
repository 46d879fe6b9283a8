"""Parsing of completions as Python, without warnings and from any thread."""

from __future__ import annotations

import ast
import contextlib
import threading
import warnings
from collections.abc import Generator
from typing import Any

# Warning filters and the depth counter of Python's parser are global in a process. Threads that parse at the same time
# can fail with "AST constructor recursion depth mismatch".
_PARSING = threading.Lock()


@contextlib.contextmanager
def _quietly() -> Generator[None]:
    with _PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about the completion; as errors they would change its reward
        yield


def module(source: str) -> ast.Module:
    """Return the syntax tree of a program; raise what `ast.parse` raises."""
    with _quietly():
        return ast.parse(source)


def expression(source: str) -> ast.expr:
    """Return the syntax tree of an expression; raise what `ast.parse` raises."""
    with _quietly():
        return ast.parse(source, mode="eval").body


def literal(source: str) -> Any:
    """Return the value of a Python literal; raise what `ast.literal_eval` raises."""
    with _quietly():
        return ast.literal_eval(source)
