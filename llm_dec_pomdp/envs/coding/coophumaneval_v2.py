"""coophumaneval-v2: A helper and a main function, each specified to its own author only.

| fact | value |
|---|---|
| agents | agent_0 "aux", agent_1 "main" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: see below) |
| data | 64 problems with 3 variants each, written for this suite: 144 train, 48 test rows, split by problem |
| return | 0 to 1 |

Observation. The author of aux, agent_0, observes the signature of aux and a rule with examples. It observes nothing of
the larger problem. The author of main, agent_1, observes both signatures and the problem, which refers to the value of
`aux(...)`. It observes nothing of the rule.

The three variants of a problem differ only in the rule, so agent_1 observes the same text in all of them. No variant is
the rule of the published problem. Protocols change what is observed: under `sequential` agent_1 also observes the code
of aux, under `discussion` both observe drafts, and under `centralized` a single agent observes both specifications.

Action. Any text with the function, as in coophumaneval-v0.

Reward. Both agents receive the same reward, the sum of three components:

| component | value | rule |
|---|---|---|
| aux | 0.1 | the function parses and has the name and the parameters of its signature |
| main | 0.1 | the same for main |
| tests | 0 to 0.8 | share of passed tests |

No component measures cooperation, because neither author can solve a problem without the teammate. In all rows the
following pairs pass at most 20 % of the tests and so receive at most 0.36 (`data/gold/coophumaneval_v2_audit.json`):

* the reference of main and an aux that is a stub, a guess such as the length or the sum of its argument, or the rule of
  another variant;
* the reference of aux and a main that is a stub or a wrapper of aux;
* a solution of the published problem.

The specifications are complete: a language model that read only the specifications wrote the functions of all 192 rows
and received 1 in each.

Limits. On training problems main can learn one variant of the rule by heart and ignore aux; it then solves one variant
in three. Evaluate on the test problems.

Turns. From the second turn on, each author observes a message about the previous turn. The option `feedback` selects
its content. "none", "plain" and "passed" are as in coophumaneval-v0; "expert" is not available.

| `feedback` | content |
|---|---|
| "level_passed" | whether the signature is right; m of n tests passed; for aux also m of n of its own examples |
| "level_feedback" (default) | the same with up to `feedback_tests` (1) failed examples for aux, or tests for main |

Candidates. With `make(..., candidates=True)` both authors select one of five functions by a letter
(`envs.wrappers.Choices`):

| author | functions |
|---|---|
| aux | its rule; the rules of the two other variants; its rule with a changed operator or number; a stub |
| main | the reference; the reference with a change; a wrapper of aux; a solution of the published problem; a stub |

Measured (`env.measure`): cooperation schemes, return by scheme and failed pairs, as in coophumaneval-v0. With
candidates also the share of each kind of function.

Source: this suite. The problems are derived from 64 earlier problems of this suite, from HumanEval (arXiv:2107.03374,
MIT licence) and from CoopHumanEval (arXiv:2508.04652). Of these 310 problems, 180 can be split into a rule that can
vary and a composition. The audit states why each of the other 130 problems cannot be split. Most of them return yes or
no, or would leave main without work.

This environment has 64 of the 180 problems. Each passes the checks of `scripts/build_split.py`, such as the limit of
20 % above. For some of the other 116 the audit gives a reason: the problem or its composition is that of another one,
or main has little work.

Version history: v2, another task, in which each author observes one half of the problem. Its returns are not comparable
with those of v0 and v1.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("coophumaneval-v2", split="test")
    >>> observations, _ = env.reset(options={"index": 0})
    >>> env.facts.reward_range
    (0.0, 1.0)
"""

from __future__ import annotations

import ast
import doctest
import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Unpack

from ...sandbox import Job, Verdict, cached_verdicts
from ...types import Score, TaskItem
from ..tasks import Tasks, TaskSource
from ..text_task import TextOptions
from . import analysis, reward
from .base import CodeTask
from .feedback import Attempt

COMPONENTS = ("aux", "main", "tests")
SIGNATURE, TESTS = 0.1, 0.8
_FIELDS = ("prompt", "main_signature", "aux_signature", "aux_spec", "entry_point", "test")
_ONLY = "Write only the function: no explanation, no code fences, no tests."


@functools.cache
def problems() -> Mapping[str, Mapping[str, Any]]:
    """Return the problems by id; `scripts/build_split.py` describes their fields."""
    text = (resources.files("llm_dec_pomdp.data") / "coophumaneval_v2.jsonl").read_text(encoding="utf-8")
    return {row["id"]: row for row in map(json.loads, text.splitlines())}


@functools.cache
def rows() -> tuple[TaskItem, ...]:
    """Return one row for each variant of each problem; its id is `<problem>/<number of the variant>`."""
    return tuple(
        TaskItem(
            id=f"{name}/{number}",
            prompt=problem["main_spec"],
            split=problem["split"],
            reference=(variant["code"], problem["main"]),
            fields={
                "aux_spec": variant["aux_spec"],
                "test": variant["test"],
                **{field: problem[field] for field in ("main_signature", "aux_signature", "entry_point")},
            },
        )
        for name, problem in problems().items()
        for number, variant in enumerate(problem["variants"])
    )


class SplitCoopHumanEval(CodeTask):
    """Two functions, each specified to its own author only; the module docstring describes the environment.

    Args:
        feedback: Content of the observations from the second turn on, a key of `envs.coding.feedback.MODES` other than
            "expert".
        feedback_tests: Number of failed tests or examples that "level_feedback" shows.
        tasks, common: See `TextTask`.
    """

    declared = replace(
        CodeTask.declared,
        name="coophumaneval-v2",
        components=COMPONENTS,
        score_range=(0.0, 1.0),
    )
    source = TaskSource("coophumaneval_v2", required=_FIELDS, fields={"prompt": "main_spec"}, sample=rows)

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        feedback: str = "level_feedback",
        feedback_tests: int = 1,
        **common: Unpack[TextOptions],
    ) -> None:
        if feedback == "expert":
            raise ValueError("feedback is 'expert', and a reviewer would read both functions; give 'level_feedback'")
        super().__init__(tasks, feedback=feedback, feedback_tests=feedback_tests, **common)

    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the specification of the agent's own function; agent_1 also observes the signature of aux."""
        if self.role(agent) == "aux":
            signature, spec, name = item.fields["aux_signature"], item.fields["aux_spec"], "aux"
            teammate = "Your teammate calls it in another function, which you do not see."
        else:
            signature, spec, name = item.fields["main_signature"], item.prompt, item.fields["entry_point"]
            helper = item.fields["aux_signature"].strip().removeprefix("def ").removesuffix(":")
            teammate = f"Your teammate writes `{helper}`, which you do not see. Call it, and do not define it yourself."
        return f"{signature.strip()}\n\n{spec.strip()}\n\nWrite the function `{name}`. {teammate} {_ONLY}"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the reward of the module's table; NaN if the sandbox failed."""
        program = self.program(item, actions)
        parts = {
            "aux": SIGNATURE * _has_signature(program.aux, item.fields["aux_signature"]),
            "main": SIGNATURE * _has_signature(program.main, item.fields["main_signature"]),
            "tests": 0.0,
        }
        if analysis.parse(program.source) is None or not program.main:
            return reward.summed(parts, "the functions do not parse, or the entry point is missing")
        [verdict] = cached_verdicts([_job(item, program.source)])
        parts["tests"] = math.nan if verdict.outcome == "infra_error" else TESTS * (verdict.passed / verdict.total)
        return reward.summed(parts, reward.detail(verdict), verdict)

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        """Return for each author a message about its own function, as set by `feedback`."""
        program = self.program(item, actions)
        [examples] = cached_verdicts([_job(item, program.aux, "aux", _examples(item.fields["aux_spec"]))])
        attempt = _Attempt(item, program, score, self.feedback_tests, examples)
        return {agent: attempt.message(self.feedback, self.role(agent), {}) for agent in self.possible_agents}

    def offered_texts(self, item: TaskItem, role: str) -> Mapping[str, str]:
        """Return the functions that an author may select, by kind; {} for rows that are not embedded."""
        name, _, number = item.id.rpartition("/")
        if name not in problems():
            return {}
        problem, stub = problems()[name], f"{item.fields[f'{role}_signature']}\n    return None\n"
        if role == "main":
            return {**{kind: problem[kind] for kind in ("main", "off by one", "wrapper", "published")}, "stub": stub}
        first, second = (other["code"] for at, other in enumerate(problem["variants"]) if at != int(number))
        own = problem["variants"][int(number)]
        return {
            "rule": own["code"],
            "off by one": own["off by one"],
            "another rule": first,
            "third rule": second,
            "stub": stub,
        }


@dataclass(frozen=True, slots=True)
class _Attempt(Attempt):
    """A turn whose outcome each author observes for its own function only."""

    examples: Verdict

    def _levels(self, role: str, *, reasons: bool) -> list[str]:
        name, function = self._function_of(role)
        signature, shown = self.item.fields[f"{role}_signature"].strip(), self.shown if reasons else 0
        lines = [f"signature of `{name}`: passed" if self.score.components[role] else f"signature of `{name}`: failed"]
        if reasons and not self.score.components[role]:
            why = analysis.syntax_error(function) if function else f"your answer contains no function `{name}`"
            lines = [f"{lines[0]}, {why or f'write `{signature}`'}"]
        if role == "aux":
            lines.append(f"your examples: {self.examples.passed:g} of {self.examples.total} passed")
            lines += [f"failed: {note}" for note in self.examples.notes[:shown]]
        passed, total = (int(self.score.diagnostics.get(f"tests_{which}", 0)) for which in ("passed", "total"))
        lines.append(f"tests of both functions: {passed} of {total} passed" if total else "tests: not run")
        return lines + [f"failed: {failure}" for failure in self._failures(role)[:shown] if role == "main"]


def _job(item: TaskItem, source: str, name: str = "", test: str = "") -> Job:
    return Job(source, test or item.fields["test"], name or item.fields["entry_point"], "")


def _has_signature(function: str, signature: str) -> bool:
    """Return whether a function parses and has the name and the parameters of a signature."""
    found, wanted = analysis.parse(function), analysis.parse(f"{signature.strip()}\n    pass")
    if not (found and found.body and wanted):
        return False
    one, other = found.body[0], wanted.body[0]
    return isinstance(one, ast.FunctionDef) and isinstance(other, ast.FunctionDef) and _names(one) == _names(other)


def _names(function: ast.FunctionDef) -> list[str]:
    return [function.name, *(argument.arg for argument in function.args.args)]


def _examples(spec: str) -> str:
    """Return the examples of a specification as tests of aux."""
    examples = doctest.DocTestParser().get_examples(spec)
    asserts = [f"    assert {example.source.strip()} == {example.want.strip()}" for example in examples]
    return "\n".join(["def check(aux):", *asserts, "    return"])
