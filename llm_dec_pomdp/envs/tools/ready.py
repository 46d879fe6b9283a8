"""Ready tools without dependencies: a calculator, notes, and files in memory.

Each function of this module returns a `Kit`. No tool accesses the disk or the network, work is bounded, and a state is
an immutable value.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import parsing
from .function import Kit, kit

MOST_BITS = 4096  # bits of a number in the calculator
LONGEST_EXPRESSION = 500
MOST_LINES = 1000  # lines that a search in files returns
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_SIGNS: dict[type, Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def _rounded(number: Any, digits: Any = None) -> Any:
    """Round as Python does; digits below -`MOST_BITS` are replaced, which is faster and has the same result."""
    return round(number, max(digits, -MOST_BITS) if isinstance(digits, int) else digits)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "round": _rounded,
    "min": min,
    "max": max,
    **{name: getattr(math, name) for name in ("sqrt", "floor", "ceil", "log", "log10", "exp", "sin", "cos", "tan")},
}
_CONSTANTS = {"pi": math.pi, "e": math.e}

Files = tuple[tuple[str, str], ...]  # paths and their texts, sorted


# --- calculator -------------------------------------------------------------------------------------------------------


def calculator() -> Kit:
    """Return a kit with the tool `calculate`; numbers have at most `MOST_BITS` bits."""
    return kit("calculator", calculate, bounded=True)


def calculate(expression: str) -> str:
    """Compute an expression of numbers, such as (3 + 4) * 2 ** 5 / sqrt(9).

    Args:
        expression: Numbers, + - * / // % **, brackets, pi, e, and functions: abs, round, min, max, sqrt, floor, ceil,
            log, log10, exp, sin, cos, tan.
    """
    if len(expression) > LONGEST_EXPRESSION:
        raise ValueError(f"it has {len(expression)} characters; give at most {LONGEST_EXPRESSION}")
    try:
        tree = parsing.expression(expression.strip().replace("^", "**"))
        return str(_computed(tree))
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{expression!r:.60} is no expression of numbers") from None


def _computed(node: ast.expr) -> int | float:
    """Compute a node; operands have at most `MOST_BITS` bits, so that every operation is fast."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(node.value)
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_computed(node.operand))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _computed(node.left), _computed(node.right)
        if isinstance(node.op, ast.Pow) and isinstance(left, int) and isinstance(right, int):
            _bounded_power(left, right)
        return _bounded(_OPERATORS[type(node.op)](left, right))
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _FUNCTIONS
        and not node.keywords
    ):
        return _bounded(_FUNCTIONS[node.func.id](*map(_computed, node.args)))
    raise ValueError(f"{ast.unparse(node)[:60]!r} is not computed here; see what the tool takes")


def _bounded_power(base: int, exponent: int) -> None:
    if (base.bit_length() - 1) * exponent > MOST_BITS:
        raise ValueError(f"{base} ** {exponent} has more than {MOST_BITS} bits")


def _bounded(value: Any) -> int | float:
    if isinstance(value, complex):
        raise ValueError("the result is no real number")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise ValueError(f"a number has more than {MOST_BITS} bits")
    return value


# --- notes ------------------------------------------------------------------------------------------------------------


def notes(most: int = 20, characters: int = 300, *, private: bool = True) -> Kit:
    """Return a kit for short notes: the tools `note`, `read_notes` and `forget`.

    Args:
        most: Maximum number of notes.
        characters: Maximum length of a note; a longer note is refused.
        private: True if each agent has its own notes, False if the team shares them.
    """
    memory = Notes(most, characters)
    return kit("notes", memory.note, memory.read_notes, memory.forget, initial=(), private=private, bounded=True)


class Notes(NamedTuple):
    """The tools for notes with their limits; see `notes`."""

    most: int
    characters: int

    def note(self, state: tuple[str, ...], text: str) -> tuple[tuple[str, ...], str]:
        """Keep a note.

        Args:
            text: What to keep.
        """
        if len(text) > self.characters:
            raise ValueError(f"the note has {len(text)} characters; {self.characters} are kept at most")
        if len(state) >= self.most:
            raise ValueError(f"there are {self.most} notes already; forget one first")
        return (*state, text), f"kept as note {len(state) + 1}"

    def read_notes(self, state: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        """Read all notes, each with its number."""
        return state, "\n".join(f"{place}. {text}" for place, text in enumerate(state, 1)) or "There are no notes."

    def forget(self, state: tuple[str, ...], number: int) -> tuple[tuple[str, ...], str]:
        """Remove a note; those behind it move up.

        Args:
            number: Of the note, from 1.
        """
        if not 1 <= number <= len(state):
            raise ValueError(f"there is no note {number}; there are {len(state)}")
        return (*state[: number - 1], *state[number:]), f"note {number} is gone"


# --- files ------------------------------------------------------------------------------------------------------------


def files(
    texts: Mapping[str, str] | None = None, *, most: int = 200, characters: int = 100_000, private: bool = False
) -> Kit:
    """Return a kit for files: `list_files`, `read_file`, `write_file`, `replace_in_file`, `search_files`.

    Args:
        texts: Initial files: text by path.
        most: Maximum number of files.
        characters: Maximum number of characters of all files together.
        private: True if each agent has its own files, False if the team shares them.

    Raises:
        ValueError: The initial files exceed a limit.
    """
    tree = FileTree(most, characters)
    initial: Files = ()
    for path, text in (texts or {}).items():
        initial = tree.kept(initial, path, text)
    does = (tree.list_files, tree.read_file, tree.write_file, tree.replace_in_file, tree.search_files)
    return kit("files", *does, initial=initial, private=private, bounded=True)


class FileTree(NamedTuple):
    """The tools for files with their limits; see `files`."""

    most: int
    characters: int

    def kept(self, state: Files, path: str, text: str) -> Files:
        """Return the files after one was written; raise ValueError if that exceeds a limit."""
        if not path.strip() or len(path) > 200 or "\n" in path:
            raise ValueError(f"{path!r:.60} is no path; give a line of at most 200 characters")
        table = {**dict(state), path: text}
        if len(table) > self.most:
            raise ValueError(f"there are {len(state)} files, the most that there may be")
        if (size := sum(map(len, table.values()))) > self.characters:
            raise ValueError(f"all files together would have {size} characters; {self.characters} are kept at most")
        return tuple(sorted(table.items()))

    def _content(self, state: Files, path: str) -> str:
        table = dict(state)
        if path not in table:
            raise ValueError(f"there is no file {path!r:.60}; there are {', '.join(table) or 'none'}"[:500])
        return table[path]

    def list_files(self, state: Files) -> tuple[Files, str]:
        """List all files with their number of characters."""
        return state, "\n".join(f"{path} ({len(text)})" for path, text in state) or "There are no files."

    def read_file(self, state: Files, path: str) -> tuple[Files, str]:
        """Read a file.

        Args:
            path: Of the file.
        """
        return state, self._content(state, path)

    def write_file(self, state: Files, path: str, text: str) -> tuple[Files, str]:
        """Write a whole file; one that is there is replaced.

        Args:
            path: Of the file.
            text: All of its text.
        """
        return self.kept(state, path, text), f"{path} has {len(text)} characters now"

    def replace_in_file(self, state: Files, path: str, old: str, new: str) -> tuple[Files, str]:
        """Replace a part of a file that stands there exactly once.

        Args:
            path: Of the file.
            old: The part to replace.
            new: What stands there then.
        """
        text = self._content(state, path)
        count = text.count(old) if old else 0
        if count != 1:
            raise ValueError(f"{old!r:.60} stands in {path} {count} times; give a part that stands there once")
        return self.kept(state, path, text.replace(old, new)), f"replaced in {path}"

    def search_files(self, state: Files, words: str) -> tuple[Files, str]:
        """Find the lines that contain a text.

        Args:
            words: What to look for, as it stands there.
        """
        hits = (
            f"{path}:{number}: {line}"
            for path, text in state
            for number, line in enumerate(text.splitlines(), 1)
            if words in line
        )
        lines = list(itertools.islice(hits, MOST_LINES + 1))
        if len(lines) > MOST_LINES:
            lines[MOST_LINES:] = [f"[only the first {MOST_LINES} lines]"]
        return state, "\n".join(lines) or f"No line contains {words!r:.60}."
