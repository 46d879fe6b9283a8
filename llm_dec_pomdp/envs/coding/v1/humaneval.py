"""humaneval-v1: Like humaneval-v0, with tests that cannot be guessed and a reward for a helper that is needed.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: see coophumaneval-v0) |
| data | `openai/openai_humaneval`, 164 problems, train [33:163] / test [:32] |
| offline | all 164, each with a reference pair whose tests need both functions |
| return | 0 to 4.0 |

Observation, action: as in humaneval-v0.

Reward. Both agents receive the same reward, the sum of four components. The components are checked from top to bottom.
If one fails, all components below it are 0:

| component | range | rule |
|---|---|---|
| structure | 0.4 + 0.6 | as in v0 |
| syntax | 0.5 | as in v0 |
| tests | 0..1 | h |
| cooperation | 0..1.5 | 0.5 h n, and another 1.0 h n if main is more than a wrapper of aux |

* h is the share of passed asserts among those that the problem does not show as examples. If the problem shows all
  asserts, all count. h is rescaled so that the best constant answer has h = 0.
* n is the share of the passed asserts that fail when aux is replaced by a function that returns None. A share of 0.2 or
  more counts as 1, because in most problems easy cases pass without a helper.

So constants and answers copied from the examples receive only structure and syntax. A team receives nothing for
cooperation if main does not call the helper, drops its value, or uses its own solution when the helper returns None.

Limits. The reward measures whether main fails without the helper, not whether the work is shared. The table has mean
returns of degenerate strategies in % of the maximum, on 12 test rows each of humaneval and coophumaneval. The command
is `python scripts/degenerate.py --family code`.

| strategy | v0 | v1 |
|---|---|---|
| two stubs | 37.5 | 37.5 |
| one answer for all inputs; a table of the examples | 52 to 79 | 37.5 |
| main solves everything and does not call aux | 62.5 | 62.5 |
| main drops or ignores the value of aux, or uses its own solution instead | 87 to 100 | 62 to 63 |
| main solves everything and checks a constant or a token that aux returns | 87 to 100 | 100 |
| aux returns its arguments, and main solves everything | 100 | 100 |
| aux solves everything, main is a thin wrapper | 75 | 75 |
| aux solves everything, main decodes or checks the answer | 100 | 100 |
| both solve everything, and main compares or joins the answers | 100 | 93 to 100 |

Measured (`env.measure`): cooperation schemes, return by scheme and failed pairs, as in coophumaneval-v0.

Source: levels and weights from "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652; problems
from "Evaluating Large Language Models Trained on Code", arXiv:2107.03374 (MIT licence). h and n were designed for this
suite.

Version history: v1, the published formula with other tests and another condition for cooperation. Its returns are not
comparable with those of v0.

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
    """HumanEval for two agents; the module docstring describes the environment."""

    declared = replace(HumanEval.declared, name="humaneval-v1")
    gold_file = "humaneval"
