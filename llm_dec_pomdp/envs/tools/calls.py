"""Calls of tools in a text, in the four forms that models write.

| form | example | from |
|---|---|---|
| tags | `<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>` | chat templates; servers' own calls become it |
| JSON | an object or a list of such objects, alone in the text or in a fenced block | many models |
| Python | `f(a=1, b="x")` or `[f(a=1), g()]`, alone in the text or in a fenced block | BFCL, tau2 |
| lines | a line `f(a=1)` of a known tool among other text | the same |

The first form that the text has is read, and other text is for thinking. What looks like a call and cannot be read is a
call with a `problem`, so that its agent hears of it. Values are JSON's: texts, numbers, true, false, null, lists,
objects.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from .. import fences

LONGEST = 50_000  # characters of a call; parsers take memory, and some the stack, in proportion
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_LINE = re.compile(r"^[ \t]*([A-Za-z_][\w.]*)\(.*\)[ \t]*$", re.MULTILINE)
_UNREADABLE = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        name: Of the tool; "" where it cannot be read.
        arguments: By name.
        places: Arguments without a name, in order; only Python's form has them.
        problem: Why it cannot be read; "" where it can.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    places: tuple[Any, ...] = ()
    problem: str = ""


def read_calls(text: str, known: Collection[str] = ()) -> tuple[Call, ...]:
    """The calls of a text, in order; () where it has none.

    Args:
        text: What an agent wrote.
        known: Names of tools, for lines of calls among other text.
    """
    if "<tool_call>" in text:
        return tuple(call for match in _TAGGED.finditer(text) for call in _within(match[1], _json))
    for block in (text, *fences.blocks(text, lambda block: any(_bare(block.strip())))):
        calls = tuple(_bare(block.strip()))
        if calls:
            return calls
    lines = (match[0].strip() for match in _LINE.finditer(text) if match[1] in known)
    return tuple(call for line in lines for call in _within(line, _python))


def written(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as text, in tags, whatever its arguments hold; the inverse of `read_calls`."""
    inside = json.dumps({"name": name, "arguments": dict(arguments)}).replace("<", "\\u003c")
    return f"<tool_call>{inside}</tool_call>"


def _bare(block: str) -> Iterator[Call]:
    """Calls of a block that is nothing else; none where it is something else."""
    if len(block) > LONGEST:
        return
    if block[:1] in ("{", "["):
        try:
            values = _loaded(block)
        except _UNREADABLE:
            pass
        else:
            listed = cast("list[Any]", values) if isinstance(values, list) else [values]
            if listed and all(isinstance(value, dict) and _name_of(cast("Any", value)) for value in listed):
                yield from map(_from_json, listed)
            return
    if block.endswith((")", ")]")) and "(" in block:
        try:
            yield from _python(block)
        except _UNREADABLE:
            return


def _within(text: str, read: Callable[[str], Iterator[Call]]) -> Iterator[Call]:
    """What is marked as a call; where it cannot be read, a call with a problem."""
    if len(text) > LONGEST:
        yield Call("", problem=f"it has {len(text)} characters; a call has at most {LONGEST}")
        return
    try:
        yield from list(read(text))
    except _UNREADABLE as error:
        yield Call("", problem=f"{type(error).__name__}: {error}"[:200])


# --- JSON -------------------------------------------------------------------------------------------------------------


def _json(text: str) -> Iterator[Call]:
    values = _loaded(text)
    yield from map(_from_json, cast("list[Any]", values) if isinstance(values, list) else [values])


def _loaded(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no value of JSON")


def _name_of(value: Mapping[str, Any]) -> str:
    name = value.get("name")
    return name if isinstance(name, str) else ""


def _from_json(value: Any) -> Call:
    """A call as an object; its arguments may be an object or the text of one, as servers write it."""
    if not isinstance(value, dict) or not _name_of(cast("Any", value)):
        raise ValueError('a call is an object {"name": ..., "arguments": {...}}')
    call = cast("dict[str, Any]", value)
    arguments: Any = call.get("arguments", call.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = _loaded(arguments or "{}")
    if not isinstance(arguments, dict):
        raise ValueError(f"the arguments of {_name_of(call)} are {arguments!r:.40}; give an object")
    return Call(_name_of(call), cast("dict[str, Any]", arguments))


# --- Python -----------------------------------------------------------------------------------------------------------


def _python(text: str) -> Iterator[Call]:
    """Calls as Python writes them; ValueError where the text is something else."""
    tree = ast.parse(text, mode="eval").body
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
    """A literal as JSON has it: tuples become lists, and true, false and null are read too."""
    if isinstance(node, ast.Name) and node.id in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    value = ast.literal_eval(node)
    return json.loads(json.dumps(value, allow_nan=False))
