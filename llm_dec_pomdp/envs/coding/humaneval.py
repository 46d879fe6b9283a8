"""humaneval-v0: Two agents solve a HumanEval problem: one writes a helper, the other the entry point.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: see coophumaneval-v0) |
| data | `openai/openai_humaneval`, 164 problems, train [33:163] / test [:32] |
| offline | all 164 |
| return | 0 to 4.0 |

Observation, action: as in coophumaneval-v0.

Reward. As in coophumaneval-v0.

Measured (`env.measure`): cooperation schemes, return by scheme and failed pairs, as in coophumaneval-v0.

Source: "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652, and its released experiments;
problems: "Evaluating Large Language Models Trained on Code", arXiv:2107.03374 (MIT licence).

Version history: v0, the task as published. Defects of the released scorer, by which the reference solutions of 10
problems failed, are corrected.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("humaneval-v0", split="all")
    >>> len(env.items)
    164
"""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from importlib import resources

from ...types import TaskItem
from ..tasks import TaskSource
from .base import REQUIRED, CodeTask, gold_pairs

_HUB_SPLITS = {"train": "test[33:163]", "test": "test[:32]"}


@functools.cache
def problems() -> tuple[TaskItem, ...]:
    """Return all 164 problems, each with a reference pair written for this package."""
    gold = gold_pairs("humaneval")
    text = (resources.files("llm_dec_pomdp.data") / "humaneval.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return tuple(
        TaskItem(
            id=row["task_id"],
            prompt=row["prompt"],
            split="test" if index < 32 else "train" if 33 <= index < 163 else "none",
            reference=gold[row["task_id"]],
            fields={"test": row["test"], "entry_point": row["entry_point"]},
        )
        for index, row in enumerate(rows)
    )


class HumanEval(CodeTask):
    """HumanEval for two agents; the module docstring describes the environment."""

    declared = replace(CodeTask.declared, name="humaneval-v0")
    source = TaskSource("humaneval", "openai/openai_humaneval", _HUB_SPLITS, REQUIRED, sample=problems)
