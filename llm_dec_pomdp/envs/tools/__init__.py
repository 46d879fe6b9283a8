"""Tools that agents call: typed functions whose state is part of the hidden state of a task.

| module | what is in it |
|---|---|
| `function` | a Python function as a tool: name, description and JSON schema from its signature and docstring |
| `calls` | the four forms in which models write calls |
| `toolbox` | the tools of a team: state, limits, prices, one answer for each call |
| `ready` | calculator, notes, files |
| `search`, `python`, `sql` | ready tools that need more: BM25, the judge's sandbox, sqlite in it |

`envs.wrappers.WithTools` gives tools to the agents of any task; a task of its own keeps a `ToolState` in its state.
"""

from .calls import Call, read_calls, written
from .function import ArgumentsError, Function, Kit, function, kit
from .toolbox import Answered, Limits, Toolbox, ToolState

__all__ = [
    "Answered",
    "ArgumentsError",
    "Call",
    "Function",
    "Kit",
    "Limits",
    "ToolState",
    "Toolbox",
    "function",
    "kit",
    "read_calls",
    "written",
]
