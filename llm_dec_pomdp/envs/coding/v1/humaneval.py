"""humaneval-v1: Like humaneval-v0, with a reward for tests that need both functions, measured by running them.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` for more, which pay as in `envs.turn_rewards`; `feedback`: `envs.coding.feedback` |
| data | `openai/openai_humaneval`, 164 problems, train [33:163] / test [:32] |
| offline | all 164, each with a reference pair of which both functions are needed |
| return | 0 to 4.0 |

Observation, action: as in humaneval-v0.

Reward (one float for the team; levels are checked in order, the first that fails ends the sum; h is the share of passed
asserts among those that the problem does not show as examples, beyond what the best constant answer would pass; b is
the share of the passed asserts that need both functions, where a tenth counts as all):

| component | range | rule |
|---|---|---|
| structure | 0.4 + 0.6 | as in v0 |
| syntax | 0.5 | as in v0 |
| tests | 0..1 | h min(1, 10 b) |
| cooperation | 0..1.5 | 1.5 h min(1, 10 b) |

An assert needs both functions where neither decides it alone:

* main alone passes it when it still does with values that aux returned elsewhere, or with what main gave to aux. What
  main knows anyway stays right meanwhile: expressions that were always the same, or the same as an argument of main or
  as an expression before them.
* aux alone passes it when aux, in one call, had all arguments of main in whatever form, and the answer in one of its
  expressions, whatever it made of it afterwards.

So a helper that is not used, only checked, or hands arguments back earns nothing. Nor does a main function that only
decodes, nor two functions that both solve everything, nor answers looked up from the examples: such programs stay
below 40 %. For the measurement the functions get separate namespaces and cannot look at frames or code, nor use `exec`
and `eval`.

The infos hold the asserts passed with and without the shown ones, and the shares that need aux, main and both. What
this cannot see: `docs/rewards.md`.

Measured (`env.measure`): the shares of the schemes by which the two functions cooperate, see `envs.coding.schemes`.

Source: levels and weights from "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652;
problems from "Evaluating Large Language Models Trained on Code", arXiv:2107.03374 (MIT licence); contributions are
this suite's own.

Version history: v1, the first hardened version. Its returns do not compare with those of v0.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("humaneval-v1", split="test")
    >>> env.facts.reward_range
    (0.0, 4.0)
"""

from __future__ import annotations

from dataclasses import replace

from ..humaneval import HumanEval
from .base import HardenedCodeTask


class HardenedHumanEval(HardenedCodeTask, HumanEval):
    """HumanEval for two; the module is the manual."""

    declared = replace(HumanEval.declared, name="humaneval-v1")
    gold_file = "humaneval"
