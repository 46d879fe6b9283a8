"""Calls of tools in a text, in the four forms that models write.

| form | example | used by |
|---|---|---|
| tags | `<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>` | chat templates; tool calls of servers |
| JSON | an object or a list of such objects, alone in the text or in a fenced block | many models |
| Python | `f(a=1, b="x")` or `[f(a=1), g()]`, alone in the text or in a fenced block | BFCL, tau2 |
| lines | a line `f(a=1)` of a known tool among other text | BFCL, tau2 |

The first form that occurs in the text is read; other text is treated as thinking. A malformed call is returned as a
call with a `problem`, so that the agent receives an answer that names it. Values are JSON values: texts, numbers, true,
false, null, lists, objects.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from .. import fences, parsing

LONGEST = 50_000  # characters of a call; memory and stack of parsers grow with it
MOST = 64  # calls that are read from a text
DEEPEST = 50  # levels of lists and objects in an argument, so that the stack is enough for all later steps
DIGITS = 4300  # digits of an integer; the limit of Python
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_LINE = re.compile(r"^[ \t]*([A-Za-z_][\w.]*)\(.*\)[ \t]*$", re.MULTILINE)
_UNREADABLE = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        name: Name of the tool; "" if the call cannot be read.
        arguments: Arguments by name.
        places: Positional arguments, which only the Python form has.
        problem: Why the call cannot be read; "" if it can.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    places: tuple[Any, ...] = ()
    problem: str = ""


def read_calls(text: str, known: Collection[str] = ()) -> tuple[Call, ...]:
    """Return the first `MOST` calls of a text, in order; () if there is none. Never raises.

    Args:
        text: Action of an agent.
        known: Names of tools, for the form "lines".
    """
    if "<tool_call>" in text:
        return _first(call for match in _TAGGED.finditer(text) for call in _within(match[1], _json))
    for block in (text, *fences.blocks(text, lambda block: any(_bare(block.strip())))):
        if calls := _first(_bare(block.strip())):
            return calls
    lines = (match[0].strip() for match in _LINE.finditer(text) if match[1] in known)
    return _first(call for line in lines for call in _within(line, _python))


def _first(calls: Iterator[Call]) -> tuple[Call, ...]:
    return tuple(itertools.islice(calls, MOST))


def written(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as text in tags, for any arguments; the inverse of `read_calls`."""
    inside = json.dumps({"name": name, "arguments": dict(arguments)}).replace("<", "\\u003c")
    return f"<tool_call>{inside}</tool_call>"


def _bare(block: str) -> Iterator[Call]:
    """Yield the calls of a block that consists of calls only; nothing for any other block."""
    if len(block) > LONGEST:
        return
    if block[:1] in ("{", "["):
        try:
            values = _listed(block)
        except _UNREADABLE:
            pass
        else:
            if values and all(map(_name_of, values)):
                yield from map(_from_json, values)
            return
    if block.endswith((")", ")]")) and "(" in block:
        calls: list[Call] = []
        try:
            calls += _python(block)
        except _UNREADABLE as error:
            if calls:  # the block is a list of calls, and the next one is malformed
                calls.append(_unread(error))
        yield from calls


def _within(text: str, read: Callable[[str], Iterator[Call]]) -> Iterator[Call]:
    """Yield the calls of a text that is marked as calls; a call with a problem if it is malformed."""
    if len(text) > LONGEST:
        yield Call("", problem=f"it has {len(text)} characters; a call has at most {LONGEST}")
        return
    try:
        yield from list(read(text))
    except _UNREADABLE as error:
        yield _unread(error)


def _unread(error: BaseException) -> Call:
    return Call("", problem=f"{type(error).__name__}: {error}"[:200])


def _plain(value: object, levels: int = DEEPEST) -> Any:
    """Return a value that JSON can represent within the limits; raise ValueError for any other value."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a number is NaN, infinite or has more than {DIGITS} digits")
    if isinstance(value, (list, dict)):
        if not levels:
            raise ValueError(f"a value has more than {DEEPEST} levels of lists and objects")
        for part in cast("list[Any]", value if isinstance(value, list) else list(cast("Any", value).values())):
            _plain(part, levels - 1)
    return cast("Any", value)


# --- JSON -------------------------------------------------------------------------------------------------------------


def _json(text: str) -> Iterator[Call]:
    yield from map(_from_json, _listed(text))


def _listed(text: str) -> list[Any]:
    values = _loaded(text)
    return cast("list[Any]", values) if isinstance(values, list) else [values]


def _loaded(text: str) -> Any:
    return json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= DIGITS else math.inf


def _name_of(value: Any) -> str:
    name = cast("dict[str, Any]", value).get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""


def _from_json(value: Any) -> Call:
    """Return an object as a call, with a problem if it is malformed; servers write arguments as text."""
    try:
        if not (name := _name_of(value)):
            raise ValueError('a call is an object {"name": ..., "arguments": {...}}')
        arguments: Any = value.get("arguments", value.get("parameters", {}))
        if isinstance(arguments, str):
            arguments = _loaded(arguments or "{}")
        if not isinstance(_plain(arguments), dict):
            raise ValueError(f"the arguments of {name} are {arguments!r:.40}; give an object")
        return Call(name, cast("dict[str, Any]", arguments))
    except _UNREADABLE as error:
        return _unread(error)


# --- Python -----------------------------------------------------------------------------------------------------------


def _python(text: str) -> Iterator[Call]:
    """Yield the calls of a Python expression; raise ValueError for any other text."""
    tree = parsing.expression(text)
    nodes = tree.elts if isinstance(tree, (ast.List, ast.Tuple)) else [tree]
    if not nodes or not all(isinstance(node, ast.Call) for node in nodes):
        raise ValueError("it is no call f(a=1)")
    for node in nodes:
        assert isinstance(node, ast.Call)
        named = {keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        if len(named) < len(node.keywords):
            raise ValueError("an argument stands twice, or ** is used")
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        yield Call(name, named, tuple(map(_value, node.args)))


def _value(node: ast.expr) -> Any:
    """Return a literal as a JSON value: tuples become lists; true, false and null are also read."""
    if isinstance(node, ast.Name) and node.id in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    try:
        value = ast.literal_eval(node)
    except ValueError:  # the original message contains a memory address
        raise ValueError(f"{ast.unparse(node)[:40]!r} is no value; give text, numbers, lists or objects") from None
    return _plain(json.loads(json.dumps(value, allow_nan=False)))
