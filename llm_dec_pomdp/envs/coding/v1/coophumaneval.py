"""coophumaneval-v1: Like coophumaneval-v0, on verified rows, with the reward of humaneval-v1.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` for more, rewarded as in `envs.turn_rewards`; `feedback`: `envs.coding.feedback` |
| data | `OpenMLRL/CoopHumanEval`, train [16:] / test [:16], without rows with contradicting asserts |
| offline | 64 problems written for this suite |
| return | 0 to 4.0 |

Observation, action: as in coophumaneval-v0. Reward: as in humaneval-v1.

Rows: solutions to all 82 published problems were written from their texts and run. Rows whose asserts contradict the
text, its examples or each other are left out. Rows with two defensible readings are kept and listed in `ambiguous`.
`audit()` and `docs/notes/coophumaneval_audit.md` have each assert with its reason.

Measured (`env.measure`): the shares of the schemes by which the two functions cooperate, see `envs.coding.schemes`.

Source: levels and weights from "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652; h, n,
reference pairs and audit are this suite's own.

Version history: v1, the published formula with other tests and another condition of cooperation. Its returns are not
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
    """Findings on the published rows under "contradicting" and "ambiguous": id, assert, reason."""
    text = (resources.files("llm_dec_pomdp.data") / "gold" / "coophumaneval_audit.json").read_text(encoding="utf-8")
    return json.loads(text)


def audited(kind: str) -> frozenset[str]:
    """Ids of the published rows with a finding of a kind."""
    return frozenset(entry["id"] for entry in audit()[kind])


class HardenedCoopHumanEval(HardenedCodeTask, CoopHumanEval):
    """Cooperative programming on verified rows; the module is the manual."""

    declared = replace(CoopHumanEval.declared, name="coophumaneval-v1")
    gold_file = "coophumaneval"

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """The rows without those whose asserts contradict their text."""
        return tuple(item for item in super().prepare(items) if item.id not in audited("contradicting"))

    @property
    def ambiguous(self) -> frozenset[str]:
        """Ids of this task set that allow two defensible readings."""
        return audited("ambiguous") & {item.id for item in self.items}
