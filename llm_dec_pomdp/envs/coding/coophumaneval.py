"""coophumaneval-v0: Python problems that split into a helper and a main function.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: `envs.coding.feedback`) |
| data | `OpenMLRL/CoopHumanEval`, 82 problems, train [16:] / test [:16] |
| offline | 64 problems written for this suite |
| return | 0 to 4.0 |

Observation. Both agents observe the problem. The request asks agent_0 for a helper function `aux`, and agent_1 for the
entry point. The request to agent_1 states that `aux(...)` exists and must not be redefined. Neither agent observes the
code of its teammate.

Action. Any text. The reward uses one function of each text, from its `def` to the end of its body: `aux` in the text of
agent_0, the entry point in the text of agent_1. Everything else is dropped, as in the published experiments: prose,
decorators, imports, constants, classes and other functions. So a function must contain the imports and functions that
it needs.

If a text has several definitions of the function, the first one that parses is used; if none parses, the first one is
used. A text that is valid Python as a whole is searched directly. In any other text, fenced blocks are searched before
prose. A fence is a line, as in CommonMark.

With `make(..., candidates=True)` both agents select a function by a letter (`envs.wrappers.Choices`), on 8 embedded
problems. `envs.coding.candidates` lists the kinds of functions.

Reward. Both agents receive the same reward, the sum of four components. The components are checked from top to bottom.
If one fails, all components below it are 0:

| component | range | rule |
|---|---|---|
| structure | 0.4 + 0.6 | 0.4 if `aux` has a return; 0.6 if the entry point has one, otherwise fails |
| syntax | 0.5 | the imports and helpers of the problem, aux and main parse together; otherwise fails |
| tests | 0..1 | passed / all asserts; 0 if loading the program raises an error |
| cooperation | 0..1.5 | main calls aux: +0.5; and is more than a wrapper: +1.0; and drops its value: -0.5 |

Cooperation requires that at least one test passes and that aux exists. A wrapper is a main function that only returns
the value of `aux(...)`.

Every assert of the test function `check` counts once. An assert in a loop counts as the share of its executions that
held. Asserts of a true constant are dropped. If all remaining asserts are like `assert False`, they pass if none of
them is reached. The program and the tests can use the helper functions of the problem.

Measured. `env.measure` returns the share of episodes that show each cooperation scheme of `envs.coding.schemes`.

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
    """Cooperative programming; the module docstring describes the environment."""

    declared = replace(CodeTask.declared, name="coophumaneval-v0")
    source = TaskSource(
        "coophumaneval", "OpenMLRL/CoopHumanEval", {"train": "test[16:]", "test": "test[:16]"}, REQUIRED
    )
