"""coophumaneval-v1: Like coophumaneval-v0, on verified rows, with the reward of humaneval-v1.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: see coophumaneval-v0) |
| data | `OpenMLRL/CoopHumanEval`, train [16:] / test [:16], without rows with contradicting asserts |
| offline | 64 problems written for this suite |
| return | 0 to 4.0 |

Observation, action: as in coophumaneval-v0.

Reward. As in humaneval-v1.

Rows. All 82 published problems were solved from their texts, and the solutions were run against the tests. Rows with
asserts that contradict the text, its examples or each other are left out. Rows with two defensible readings are kept
and listed in `env.ambiguous`. `audit()` and `docs/notes/coophumaneval_audit.md` give each assert and the reason.

Measured (`env.measure`): cooperation schemes, return by scheme and failed pairs, as in coophumaneval-v0.

Source: levels and weights from "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652. The
reference pairs, the audit and two quantities of the reward were made for this suite. The quantities are h, the rescaled
share of passed asserts, and n, the share of passed asserts that need aux; humaneval-v1 defines both.

Version history: v1, the published formula with other tests and another condition for cooperation. Its returns are not
comparable with those of v0.

Example:
    >>> from llm_dec_pomdp.envs.coding.v1.coophumaneval import audit
    >>> sorted({entry["id"] for entry in audit()["contradicting"]})[0]
    'CoopHumanEval/12'
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources

from ....types import TaskItem
from ..coophumaneval import CoopHumanEval
from .base import HardenedCodeTask


@functools.cache
def audit() -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Return the findings on published rows, under "contradicting" and "ambiguous": id, assert and reason each."""
    text = (resources.files("llm_dec_pomdp.data") / "gold" / "coophumaneval_audit.json").read_text(encoding="utf-8")
    return json.loads(text)


def audited(kind: str) -> frozenset[str]:
    """Return the ids of published rows with a finding of this kind."""
    return frozenset(entry["id"] for entry in audit()[kind])


class HardenedCoopHumanEval(HardenedCodeTask, CoopHumanEval):
    """Cooperative programming on verified rows; the module docstring describes the environment."""

    declared = replace(CoopHumanEval.declared, name="coophumaneval-v1")
    gold_file = "coophumaneval"

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Return the rows without contradicting asserts."""
        return tuple(item for item in super().prepare(items) if item.id not in audited("contradicting"))

    @property
    def ambiguous(self) -> frozenset[str]:
        """Return the ids of rows in this task set that allow two defensible readings."""
        return audited("ambiguous") & {item.id for item in self.items}
