"""Tools that agents call: typed functions whose state is part of the hidden state of a task.

| module | content |
|---|---|
| `function` | a Python function as a tool: name, description and JSON schema from its signature and docstring |
| `calls` | the four forms in which models write calls |
| `toolbox` | the tools of a team: state, limits, prices, one answer for each call |
| `ready` | calculator, notes, files |
| `search`, `python`, `sql` | more tools: BM25 search, and Python and SQL in the code sandbox |

`envs.wrappers.WithTools` gives tools to the agents of any task. Your own task can keep a `ToolState` in its state
instead.
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
