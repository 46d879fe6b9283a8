"""coophumaneval-v1: coophumaneval-v0 on verified rows, paid for what both agents contribute.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1 (`max_turns` for more; `feedback` says what is told in between, see `envs.coding.feedback`) |
| several turns pay | the score of the last one, or as `pays` says, see `envs.pays` |
| data | `OpenMLRL/CoopHumanEval`, train [16:] / test [:16], without its contradicting rows |
| offline | 64 problems written for this suite |
| return | 0 to 4.0 |

Observation, action: as in coophumaneval-v0.

Reward (one float for the team; levels are gated, the first that fails ends the sum; h is the share of passed asserts
among those that the problem does not show as examples, beyond what the best constant answer would pass):

| component | range | rule |
|---|---|---|
| structure | 0.4 + 0.6 | as in v0 |
| syntax | 0.5 | as in v0 |
| tests | 0..1 | h where both agents matter, else 0 |
| cooperation | 0..1.5 | 1.5 h where both agents matter, else 0 |

aux matters where results follow its values: some are lost when main gets what aux returned in other calls, and not
only because main checks that it is what it expects; a helper that says always the same, or gives its arguments back,
does not matter. main matters where it does more than take a coat off: where its results are not what aux returns, or
returns when asked in place of main, as it is or negated, moved, reversed, as text, in a code or within other values, in
one way for all calls. So a helper that is not used, used and ignored, or only checked earns nothing, nor does a wrapper
by meaning, nor do answers looked up from the examples: such programs stay below 40 %. Functions have namespaces of
their own when this is tried, and cannot look at frames or code; what else they share is lost.
The infos hold asserts passed with and without the shown ones, and who mattered. What remains open:
`docs/code_rewards.md`.

Rows: solutions to all 82 published problems were written from their texts and run. Rows whose asserts contradict the
text, its examples or each other are left out; rows with two defensible readings are kept and listed in `ambiguous`.
Each assert and reason: `audit()` and `docs/coophumaneval_audit.md`.

Source: levels and weights from "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652;
contributions, reference pairs and audit are this suite's own.

Version history: v1, the first hardened version; before its release it learnt to see through checks of tokens, answers
in a coat and programs that look at their surroundings. Its returns do not compare with those of v0.

Example:
    >>> from llm_dec_pomdp.envs.coding.coophumaneval_v1 import audit
    >>> sorted({entry["id"] for entry in audit()["contradicting"]})[0]
    'CoopHumanEval/12'
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources

from ...types import TaskItem
from .base import HardenedCodeTask
from .coophumaneval import CoopHumanEval


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

    metadata = {**CoopHumanEval.metadata, "name": "coophumaneval-v1"}
    gold_file = "coophumaneval"

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """The rows without those whose asserts contradict their text."""
        return tuple(item for item in super().prepare(items) if item.id not in audited("contradicting"))

    @property
    def ambiguous(self) -> frozenset[str]:
        """Ids of this task set that allow two defensible readings."""
        return audited("ambiguous") & {item.id for item in self.items}
