"""mbpp-v0: Small Python problems for two, from one sentence each.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` for more, which pay as in `envs.turn_rewards`; `feedback`: `envs.coding.feedback` |
| data | `google-research-datasets/mbpp` (sanitized), train / test |
| offline | 32 problems written for this suite |
| return | 0 to 4.0 |

Observation, action: as in coophumaneval-v0, with candidates for the 3 embedded problems that have all kinds.

Reward: as in coophumaneval-v0.

The published rows, sanitized or all, hold a sentence, a list of asserts and a solution. Entry point and signature are
taken from the solution (the name that the asserts call), as in the files that are made for two agents.

Measured (`env.measure`): the shares of the schemes by which the two functions cooperate, see `envs.coding.schemes`.

Source: "Program Synthesis with Large Language Models", arXiv:2108.07732 (CC-BY-4.0); reward: arXiv:2508.04652.

Version history: v0, the reward of coophumaneval-v0 on these problems.

Example:
    >>> import llm_dec_pomdp
    >>> llm_dec_pomdp.make("mbpp-v0", split="test").role("agent_0")
    'aux'
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from ..tasks import Row, TaskError, TaskSource
from .base import REQUIRED, CodeTask


def from_published(row: Row) -> dict[str, Any]:
    """A row of the published data set in this suite's fields."""
    if "test_list" not in row:
        return dict(row)
    asserts: list[str] = list(row["test_list"])
    functions = [node for node in ast.parse(row["code"]).body if isinstance(node, ast.FunctionDef)]
    called = {node.id for line in asserts for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    function = next((node for node in reversed(functions) if node.name in called), None)
    if function is None:
        raise TaskError(
            f"MBPP row {row['task_id']!r}: its asserts call none of the functions in 'code' "
            f"({', '.join(node.name for node in functions) or 'there is none'}); leave the row out"
        )
    prompt = row.get("prompt") or row.get("text")
    if prompt is None:
        raise TaskError(
            f"MBPP row {row['task_id']!r}: it has neither 'prompt' nor 'text'; give it the problem in words"
        )
    setup = [*row.get("test_imports", ()), row.get("test_setup_code", "")]
    imports = "".join(f"{line}\n" for line in setup if line.strip())
    tests = "".join(f"    {line}\n" for line in asserts)
    return {
        "task_id": f"MBPP/{row['task_id']}",
        "prompt": f'def {function.name}({ast.unparse(function.args)}):\n    """{prompt}"""\n',
        "test": f"{imports}def check({function.name}):\n{tests}",
        "entry_point": function.name,
        "split": row.get("split", ""),
    }


class MBPP(CodeTask):
    """MBPP for two; the module is the manual."""

    declared = replace(CodeTask.declared, name="mbpp-v0")
    source = TaskSource(
        "mbpp",
        "google-research-datasets/mbpp",
        {"train": "train", "test": "test"},
        REQUIRED,
        hub_config="sanitized",
        convert=from_published,
    )
