"""coophumaneval-v0: Python problems that split into a helper and a main function.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` for more, which pay as in `envs.turn_rewards`; `feedback`: `envs.coding.feedback` |
| data | `OpenMLRL/CoopHumanEval`, 82 problems, train [16:] / test [:16] |
| offline | 64 problems written for this suite |
| return | 0 to 4.0 |

Observation. Both agents see the problem. aux is asked for a helper function `aux`, main for the entry point; main
knows that `aux(...)` exists, does not see its code, and must not redefine it.

Action. Any text. One function counts, from its `def` to the end of its body: `aux` of the helper's text, the entry
point of main's. Everything else is dropped, as published: prose, decorators, imports, constants, classes and other
functions. So a function must contain the imports and functions that it needs. Of several definitions the first that
parses counts, and a later one does not replace it. If the whole text is Python, its definitions are searched; otherwise
those in fenced blocks come first, then those in prose. If none parses, the first one counts. Fences are lines, as in
CommonMark.

With `make(..., candidates=True)` both agents choose among functions by a letter (`envs.wrappers.Choices`), on 8
embedded problems. `envs.coding.candidates` lists the kinds.

Reward (one float for the team; levels are checked in order, the first that fails ends the sum):

| component | range | rule |
|---|---|---|
| structure | 0.4 + 0.6 | `aux` defined with a return (optional); entry point defined with a return, else stop |
| syntax | 0.5 | the imports and helpers of the problem, aux and main parse together, else stop |
| tests | 0..1 | passed / total asserts; 0 where loading raises |
| cooperation | 0..1.5 | a test passed, aux exists: main calls it +0.5, is no thin wrapper +1.0, drops its value -0.5 |

Every assert of `check` counts once: in a loop it is worth the share of its executions that held. Asserts of a true
constant are dropped. If all others are like `assert False`, they pass if none of them is reached. Helpers given in the
problem are in scope of the program and of the tests.

Measured (`env.measure`): the shares of the schemes by which the two functions cooperate, see `envs.coding.schemes`.

Source: "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652, and its released experiments.

Version history: v0, the task as published.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("coophumaneval-v0", split="test")
    >>> observations, _ = env.reset(options={"index": 0})
    >>> env.role("agent_0")
    'aux'
"""

from __future__ import annotations

from dataclasses import replace

from ..tasks import TaskSource
from .base import REQUIRED, CodeTask


class CoopHumanEval(CodeTask):
    """Cooperative programming; the module is the manual."""

    declared = replace(CodeTask.declared, name="coophumaneval-v0")
    source = TaskSource(
        "coophumaneval", "OpenMLRL/CoopHumanEval", {"train": "test[16:]", "test": "test[:16]"}, REQUIRED
    )
