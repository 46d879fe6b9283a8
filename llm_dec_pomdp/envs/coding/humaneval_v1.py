"""humaneval-v1: humaneval-v0 with a reward for what both agents contribute, measured by running changed programs.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1 (`max_turns` for more; `feedback` says what agents are told in between, see `envs.coding.feedback`) |
| several turns pay | the score of the last one; for other rules set `pays`, see `envs.pays` |
| data | `openai/openai_humaneval`, 164 problems, train [33:163] / test [:32] |
| offline | all 164, each with a reference pair in which both functions matter |
| return | 0 to 4.0 |

Observation, action: as in humaneval-v0.

Reward (one float for the team; levels are checked in order, the first that fails ends the sum; h is the share of passed
asserts among those that the problem does not show as examples, beyond what the best constant answer would pass):

| component | range | rule |
|---|---|---|
| structure | 0.4 + 0.6 | as in v0 |
| syntax | 0.5 | as in v0 |
| tests | 0..1 | h where both agents matter, else 0 |
| cooperation | 0..1.5 | 1.5 h where both agents matter, else 0 |

aux matters where results depend on its values: some results are lost when main gets what aux returned in other calls,
and not only because main checks that the value is the expected one. A helper that always returns the same, or returns
its arguments, does not matter.

main matters where it does more than undo a simple encoding: where its results are not simply what aux returns, or what
aux returns when it is asked in place of main; neither as they are nor negated, moved, reversed, as text, in a code or
within other values, in one way for all calls.

So a helper that is not used, used and ignored, or only checked earns nothing. Nor does a main function that only
forwards, and nor do answers looked up from the examples: such programs stay below 40 %. For these measurements the
functions get separate namespaces and cannot look at frames or code; nothing else that they share is kept.

The infos hold the asserts passed with and without the shown ones, and who mattered. What this cannot see:
`docs/code_rewards.md`.

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
