"""humaneval-v1: humaneval-v0 paid for what both agents contribute, found by running the program without them.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1 (`max_turns` for more; `feedback` says what is told in between, see `envs.coding.feedback`) |
| several turns pay | the score of the last one, or as `pays` says, see `envs.pays` |
| data | `openai/openai_humaneval`, 164 problems, train [33:163] / test [:32] |
| offline | all 164, each with a reference pair in which both functions matter |
| return | 0 to 4.0 |

Observation, action: as in humaneval-v0.

Reward (one float for the team; levels are gated, the first that fails ends the sum; h is the share of passed asserts
among those that the problem does not show as examples, beyond what the best constant answer would pass):

| component | range | rule |
|---|---|---|
| structure | 0.4 + 0.6 | as in v0 |
| syntax | 0.5 | as in v0 |
| tests | 0..1 | h where both agents matter, else 0 |
| cooperation | 0..1.5 | 1.5 h where both agents matter, else 0 |

aux matters where its value does: results are lost when it repeats its first value, and its values are not always the
same part of its arguments. main matters where results are lost when it is replaced by `return aux(*arguments)`, boxed
or not, and where its result is not always the same part of what aux makes of its arguments. So a helper that is not
used, used and ignored, a constant or an identity earns nothing, nor does a wrapper by meaning, nor do answers looked up
from the examples: such programs stay below 40 %. The infos hold asserts passed with and without the shown ones, and who
mattered.

Source: levels and weights from "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652;
problems from "Evaluating Large Language Models Trained on Code", arXiv:2107.03374 (MIT licence); contributions are
this suite's own.

Version history: v1, the first hardened version. Its returns do not compare with those of v0.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("humaneval-v1", split="test")
    >>> env.reward_range
    (0.0, 4.0)
"""

from __future__ import annotations

from .base import HardenedCodeTask
from .humaneval import HumanEval


class HardenedHumanEval(HardenedCodeTask, HumanEval):
    """HumanEval for two; the module is the manual."""

    metadata = {**HumanEval.metadata, "name": "humaneval-v1"}
    gold_file = "humaneval"
