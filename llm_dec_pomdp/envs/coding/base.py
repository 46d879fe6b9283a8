"""Base of the code environments: a helper and a main function, which run in the code sandbox."""

from __future__ import annotations

import functools
import json
import keyword
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Unpack

from ...registries import nearest
from ...sandbox import cached_verdicts
from ...types import Group, Reviewer, Score, TaskItem
from ..facts import Facts
from ..tasks import TaskError, Tasks
from ..text_task import TextOptions, TextTask
from . import analysis, reward, trial
from .candidates import candidates
from .feedback import MODES, Attempt, ask_expert
from .measures import measured

REQUIRED = ("prompt", "test", "entry_point")
_ONLY = "Write only the function: no explanation, no code fences, no tests."


class CodeTask(TextTask):
    """Two agents write a program: agent_0 a helper named `aux`, agent_1 the entry point.

    A subclass declares `source`.

    Args:
        feedback: Content of the observations from the second turn on, one of `envs.coding.feedback.MODES`.
        feedback_tests: Number of failed asserts that "level_feedback" shows.
        expert: The reviewer of mode "expert", a function (prompt, number of the try) -> answer; see `agents.Expert`.
        expert_seconds: Seconds to wait for the reviewer's answer in a turn.
        tasks, common: See `TextTask`.
    """

    declared = Facts(
        name="coding",
        roles=("aux", "main"),
        components=reward.COMPONENTS,
        diagnostics=reward.DIAGNOSTICS,
        score_range=(0.0, 4.0),
        hidden_fields=("test",),
        joined_as_module=True,
        judges_code=True,
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        feedback: str = "level_feedback",
        feedback_tests: int = 1,
        expert: Reviewer | None = None,
        expert_seconds: float = 60.0,
        **common: Unpack[TextOptions],
    ) -> None:
        if feedback not in MODES:
            raise ValueError(f"feedback {feedback!r} does not exist; {nearest(feedback, MODES)}")
        if feedback_tests < 0:
            raise ValueError(f"feedback_tests is {feedback_tests}; give a number of asserts of at least 0")
        if (feedback == "expert") != (expert is not None):
            raise ValueError(
                f"feedback is {feedback!r} and expert is {expert!r}; give both 'expert' and an expert, or neither"
            )
        if not (expert is None or callable(expert)):
            raise TypeError(f"expert is a {type(expert).__name__}; give a function, or wrap a policy in agents.Expert")
        if not expert_seconds > 0:
            raise ValueError(f"expert_seconds is {expert_seconds!r}; give a number of seconds above 0")
        super().__init__(tasks, **common)
        self.feedback = feedback
        self.feedback_tests = feedback_tests
        self._expert = expert
        self._expert_seconds = expert_seconds

    def problem(self, item: TaskItem) -> str:
        """Return why a row cannot be used: its entry point is no name, or no program passes its tests; else ""."""
        name = item.fields["entry_point"]
        if not name.isidentifier() or keyword.iskeyword(name):
            return f"field 'entry_point': is {name!r}; give the name of a function"
        if name == self.declared.roles[0]:
            return f"field 'entry_point': is {name!r}, the name of the helper; give the function another name"
        reason = analysis.unusable_tests(item.fields["test"])
        return reason and f"field 'test': {reason}; correct or remove the row"

    def offered_texts(self, item: TaskItem, role: str) -> Mapping[str, str]:
        """Return the candidate functions of an embedded problem by kind; see `envs.coding.candidates`."""
        return candidates().get(item.id, {}).get(role, {})

    def try_rows(self) -> None:
        """Run the tests of rows that come from the user; see `coding.trial`."""
        if self._rows_of not in ("", "hub") and (found := trial.first_unusable(self.items)):
            item, problem = found
            raise TaskError(f"{self._rows_of}, task {item.id!r}, {problem}")

    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the problem, then the request to the role; main does not observe the code of aux."""
        entry_point = item.fields["entry_point"]
        if self.role(agent) == "aux":
            goal = f"returns something useful for solving `{entry_point}`"
            request = f"Write a helper function named `aux` that {goal}. {_ONLY}"
        else:
            request = (
                f"Write the function `{entry_point}`. A helper function `aux(...)` written by someone else exists: "
                f"call it where it helps, and do not define it yourself. {_ONLY}"
            )
        return f"{item.prompt.strip()}\n\n{request}"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the reward of `envs.coding.reward`."""
        return reward.score(item, self.program(item, actions), cached_verdicts)

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        """Return the message to each agent about the turn, as set by `feedback`."""
        program = self.program(item, actions)
        edits = ask_expert(self._expert, item, program, self._expert_seconds) if self._expert else {}
        attempt = Attempt(item, program, score, self.feedback_tests)
        return {agent: attempt.message(self.feedback, self.role(agent), edits) for agent in self.possible_agents}

    def program(self, item: TaskItem, actions: Mapping[str, str]) -> reward.Program:
        """Return the two functions of a joint action."""
        aux_text, main_text = (actions[agent] for agent in self.possible_agents)
        return reward.Program.find(aux_text, main_text, item.fields["entry_point"])

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return cooperation schemes, the return by scheme, and the kinds of failed pairs; see `coding.measures`."""
        return measured(self, groups, cached_verdicts)


@functools.cache
def gold_pairs(name: str) -> Mapping[str, tuple[str, ...]]:
    """Return reference pairs by task id, from `data/gold/<name>.jsonl`."""
    text = (resources.files("llm_dec_pomdp.data") / "gold" / f"{name}.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return {row["id"]: tuple(row["reference"]) for row in rows}
