"""coophumaneval-v0: Python problems that split into a helper and a main function.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: see Turns) |
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
prose. Backticks count as a fence only on a line of their own, by the CommonMark rules. A closing
fence may also follow code at the end of a line.

With `make(..., candidates=True)` both agents select a function by a letter (`envs.wrappers.Choices`), on 8 of the 64
problems in the package. `envs.coding.candidates` lists the kinds of functions.

Reward. Both agents receive the same reward, the sum of four components. The components are checked from top to bottom.
If one fails, all components below it are 0:

| component | range | rule |
|---|---|---|
| structure | 0.4 + 0.6 | 0.4 if `aux` has a return, 0.6 if the entry point has one; fails only if the latter has none |
| syntax | 0.5 | the imports and helpers of the problem, aux and main parse together; otherwise fails |
| tests | 0..1 | passed / all asserts; 0 if loading the program raises an error |
| cooperation | 0..1.5 | +0.5 if main calls aux; +1.0 if also more than a wrapper; -0.5 if it drops a value of aux |

Cooperation requires that at least one test passes and that aux exists. A wrapper is a main function that only returns
the value of `aux(...)`. Main drops a value if a call of aux stands as a statement of its own, so that its result is
unused.

Every assert of the test function `check` counts once. An assert in a loop counts as the share of its executions that
held. Asserts of a true constant are dropped. If the tests have only asserts that always fail (`assert False`), the
tests pass if no such assert is executed. The program and the tests can use the helper functions of the problem.

Turns. From the second turn on, both agents observe a message about the previous turn. The option `feedback` selects its
content:

| `feedback` | content |
|---|---|
| "none" | a request to write the function again |
| "plain" | the agent's own function as it was extracted, to revise |
| "passed" | one line: whether all tests passed |
| "level_passed" | the levels that passed, and m of n tests; for main also whether it uses the helper |
| "level_feedback" (default) | the same with reasons, such as a syntax error, failed asserts or a wrapper |
| "expert" | a reviewer's edit of the function; the reviewer observes the problem and the code, never the tests |

A message never shows the code of the teammate, except if a reviewer's edit quotes it. It shows at most `feedback_tests`
(1) failed asserts.

Measured. `env.measure` returns three tables about pairs of functions (`envs.coding.measures`):

| table | content |
|---|---|
| schemes | the share of episodes that show each cooperation scheme of `envs.coding.schemes` |
| return by scheme | the mean return of the episodes that show it, and of those that show none |
| failed pairs | the share of pairs that fail a test, and which function is wrong in them |

In a failed pair, a function is right if it passes all tests with the reference of the other function. "aux broke main"
are failed pairs with a right main and a wrong aux, "main broke aux" the reverse.

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
