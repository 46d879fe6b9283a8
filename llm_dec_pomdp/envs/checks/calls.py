"""Tool calls made from the schemas of tools: valid ones, and wrong or malicious ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from ...types import Tool

_VALUES: tuple[Any, ...] = (
    *(
        "",
        "x" * 10_000,
        "\x00",
        "\ud800",
        "../" * 20,
        "'; DROP TABLE t; --",
        "__import__('os').system('true')",
        "9" * 5000,
        "round(1, -1000000000)",
    ),
    *(0, -1, 2**70, 1e308, True, None, [], [[[]]], {"a": {"b": []}}),
)


def plain_calls(tools: tuple[Tool, ...], draw: random.Random) -> str:
    """Return a call of each tool with arguments of the right types; a few words if there is no tool."""
    lines = [_tagged(tool.name, {name: _fitting(s, draw) for name, s in _properties(tool)}) for tool in tools]
    return "\n".join(lines) or "a few words"


def hostile_calls(tools: tuple[Tool, ...], path: str, draw: random.Random) -> str:
    """Return 16 wrong or malicious calls; `path` is a file that no tool may read."""
    return "\n".join(_hostile(tools, path, draw) for _ in range(16))


def _hostile(tools: tuple[Tool, ...], path: str, draw: random.Random) -> str:
    if not tools or draw.random() < 0.1:
        return draw.choice(["<tool_call>{", "<tool_call>" + "[" * 500 + "</tool_call>", _tagged("nothing", {})])
    tool = draw.choice(tools)
    values = [*_VALUES, path, f"open({path!r}).read()", f"ATTACH '{path}' AS a", f"SELECT readfile('{path}')"]
    arguments = {name: draw.choice(values) for name, _ in _properties(tool) if draw.random() < 0.9}
    if draw.random() < 0.2:
        arguments["unknown"] = draw.choice(values)
    return _tagged(tool.name, arguments)


def _properties(tool: Tool) -> Iterator[tuple[str, Any]]:
    yield from tool.json_schema.get("properties", {}).items()


def _fitting(schema: Any, draw: random.Random) -> Any:
    """Return a value of the type that a schema names; text if it names none."""
    values = {"integer": draw.randrange(3), "number": draw.randrange(9) / 2, "boolean": False, "array": list[Any]()}
    return values.get(str(schema.get("type")), f"1 + {draw.randrange(9)}")


def _tagged(name: str, arguments: dict[str, Any]) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
