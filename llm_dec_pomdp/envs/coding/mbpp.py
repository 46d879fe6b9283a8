"""mbpp-v0: Small Python problems for two agents, each described by one sentence.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: see coophumaneval-v0) |
| data | `google-research-datasets/mbpp` (sanitized), train / test |
| offline | 32 problems written for this suite |
| return | 0 to 4.0 |

Observation, action: as in coophumaneval-v0. With `candidates=True` agents select among functions for the 3 embedded
problems that have all kinds.

Reward. As in coophumaneval-v0.

Rows. A published row, sanitized or not, has a sentence, a list of asserts and a solution. Its entry point is the
function of the solution that the asserts call, with the signature of the solution.

Measured (`env.measure`): cooperation schemes, return by scheme and failed pairs, as in coophumaneval-v0.

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
    """Return a row of the published data set with this package's fields; return other rows unchanged."""
    if "test_list" not in row:
        return dict(row)
    asserts: list[str] = list(row["test_list"])
    functions = [node for node in ast.parse(row["code"]).body if isinstance(node, ast.FunctionDef)]
    called = {node.id for line in asserts for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    function = next((node for node in reversed(functions) if node.name in called), None)
    if function is None:
        raise TaskError(
            f"MBPP row {row['task_id']!r}: its asserts call none of the functions in 'code' "
            f"({', '.join(node.name for node in functions) or 'there is none'}); remove the row"
        )
    prompt = row.get("prompt") or row.get("text")
    if prompt is None:
        raise TaskError(f"MBPP row {row['task_id']!r}: it has neither 'prompt' nor 'text'; add the problem in words")
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
    """MBPP for two agents; the module docstring describes the environment."""

    declared = replace(CodeTask.declared, name="mbpp-v0")
    source = TaskSource(
        "mbpp",
        "google-research-datasets/mbpp",
        {"train": "train", "test": "test"},
        REQUIRED,
        hub_config="sanitized",
        convert=from_published,
    )
