"""Every check of `check_env` catches the violation it is there for, and lets honest environments pass."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from llm_dec_pomdp.envs.base import StepResult, TextDecPOMDP
from llm_dec_pomdp.envs.checks import CHECKS, CheckFailure, check_env
from llm_dec_pomdp.envs.facts import Facts
from llm_dec_pomdp.envs.task import Transition
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.text_task import TextState, TextTask
from llm_dec_pomdp.spaces import FreeText
from llm_dec_pomdp.types import Score, TaskItem, Tool

ITEMS = tuple(
    TaskItem(f"t{i}", f"question {i}", reference=(f"ping {i}", f"pong {i}"), fields={"test": "assert True"})
    for i in range(4)
)


class Honest(TextTask):
    """One point for each agent that says its reference."""

    declared = Facts(
        name="planted-v0",
        roles=("asker", "answerer"),
        components=("first", "second"),
        score_range=(0.0, 2.0),
        hidden_fields=("test",),
    )
    source = TaskSource("planted", "acme/planted", {"train": "train"})

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{item.prompt}, {self.role(agent)}?"

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        hits = [float(actions[agent] == text) for agent, text in zip(self.possible_agents, item.reference, strict=True)]
        return Score(sum(hits), dict(zip(self.declared.components, hits, strict=True)))


class FreshSpaces(Honest):
    def action_space(self, agent: str) -> FreeText:
        return FreeText()


class WarnsAboutAgents(Honest):
    def step(self, actions: Mapping[str, str]) -> StepResult:
        observations, *rest = super().step(actions)
        return {"agent_0": observations["agent_0"]}, *rest  # type: ignore[return-value]


class OwnRewards(Honest):
    def step(self, actions: Mapping[str, str]) -> StepResult:
        observations, _, *rest = super().step(actions)
        return observations, {"agent_0": 0.0, "agent_1": 1.0}, *rest  # type: ignore[return-value]


class IntegerRewards(Honest):
    def step(self, actions: Mapping[str, str]) -> StepResult:
        observations, rewards, *rest = super().step(actions)
        return observations, {agent: int(reward) for agent, reward in rewards.items()}, *rest  # type: ignore[return-value]


class ShowsReference(Honest):
    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{super().observe(item, agent)} Hint: {item.reference[0]}"


class ShowsTests(Honest):
    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{super().observe(item, agent)} Tests: {item.fields['test']}"


class ShowsReferenceLater(Honest):
    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        return dict.fromkeys(self.possible_agents, f"It was {item.reference[1]}")


class ShowsTheOther(Honest):
    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        return dict.fromkeys(self.possible_agents, f"The other said {self.history('agent_1')[-1].text}")


class ShowsReferenceInState(Honest):
    def state(self) -> str:
        return json.dumps([super().state(), *(self.item.reference if self.agents else ())])


class Counts(Honest):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.count = 0

    def observe(self, item: TaskItem, agent: str) -> str:
        self.count += 1
        return f"{super().observe(item, agent)} Visitor number {self.count}"


class IgnoresSeed(Honest):
    _turns = itertools.cycle(range(len(ITEMS)))

    def _choose(self, options: Mapping[str, Any]) -> TaskItem:
        return super()._choose(options) if options else self.items[next(self._turns)]


class PaysForLength(Honest):
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        score = super().score(item, actions)
        more = len(actions["agent_0"]) / 1000
        return Score(score.total + more, {**score.components, "first": score.components["first"] + more})


class PaysPlainNumbers(Honest):
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Any:
        return super().score(item, actions).total


class PaysAnotherPart(Honest):
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        score = super().score(item, actions)
        return Score(score.total, {"style": score.total})


class PaysMoreThanItsParts(Honest):
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        score = super().score(item, actions)
        return Score(2 * score.total, score.components)


class PaysNothingFinite(Honest):
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        return Score(float("inf"), {}) if "\x00" in actions["agent_0"] else super().score(item, actions)


class PaysForSilence(Honest):
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        return super().score(item, actions) if any(actions.values()) else Score(0.5, {"first": 0.5, "second": 0.0})


class LivesOnSilence(PaysForSilence):
    declared = replace(PaysForSilence.declared, score_range=(0.5, 2.0))


class ChokesOnNul(Honest):
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        if "\x00" in actions["agent_0"]:
            raise ValueError("embedded null byte")
        return super().score(item, actions)


class UnreachableMaximum(Honest):
    declared = replace(Honest.declared, best=2.5)


class PlaysOn(Honest):
    def step(self, actions: Mapping[str, str]) -> StepResult:
        return super().step(actions) if self.agents else ({}, {}, {}, {}, {})


class RaisesSomethingElse(Honest):
    def step(self, actions: Mapping[str, str]) -> StepResult:
        if not self.agents:
            raise IndexError("pop from empty list")
        return super().step(actions)


class ForkIsItself(Honest):
    def fork(self) -> TextDecPOMDP:
        return self


class KeepsAList(Honest):
    """TurnReward for what was said before, which it keeps in a list that forks share."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heard: list[str] = []

    def initial_state(self, item: TaskItem, seed: int) -> TextState:
        self.heard.clear()
        return super().initial_state(item, seed)

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        score = super().score(item, actions)
        self.heard += actions.values()
        missing = 1.0 - score.components["first"]
        return Score(2.0, {"first": 1.0, "second": 1.0}) if missing and "fork" in "".join(self.heard[:-2]) else score


class MutableState(Honest):
    def transition(self, state: TextState, actions: Mapping[str, str], seed: int) -> Transition[TextState]:
        step = super().transition(state, actions, seed)
        return replace(step, state=state._replace(observations=list(state.observations)))  # type: ignore[arg-type]


class ForgetsOnPickling(Honest):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.greeting = "Hello."

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "greeting": "Who are you?"}

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{self.greeting} {super().observe(item, agent)}"


class StateIsNoJson(Honest):
    def state(self) -> str:  # type: ignore[override]
        return f"{self.turn} turns were played"


class NoInfosAtReset(Honest):
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observations, _ = super().reset(seed, options)
        return observations, {agent: {} for agent in self.agents}


class NoInfosAtStep(Honest):
    def _infos(self, score: Score | None, agents: Any) -> dict[str, dict[str, Any]]:
        infos = super()._infos(score, agents)
        return {a: {k: v for k, v in i.items() if "second" not in k or not score} for a, i in infos.items()}


class HashDecides(Honest):
    """Which of two greetings is chosen depends on PYTHONHASHSEED."""

    def observe(self, item: TaskItem, agent: str) -> str:
        return f"{super().observe(item, agent)} {hash('a greeting')}"


class Truncates(Honest):
    """As environments of other packages do when time runs out."""

    def step(self, actions: Mapping[str, str]) -> StepResult:
        observations, rewards, terminations, _, infos = super().step(actions)
        return observations, rewards, dict.fromkeys(terminations, False), terminations, infos


class AnswersAtLength(Honest):
    """Its tool answers a call with more than anybody reads."""

    def tools(self, agent: str) -> tuple[Tool, ...]:
        return (Tool("look", "Look."),)

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        return {agent: "x" * 200_000 if "<tool_call>" in text else "Again." for agent, text in actions.items()}


VIOLATIONS: list[tuple[type[Honest], str, str]] = [
    (PaysPlainNumbers, "reward parts", "returned a float (0.0); return a Score"),
    (PaysAnotherPart, "reward parts", "['style'], but ['first', 'second'] are declared"),
    (PaysMoreThanItsParts, "reward parts", "the components sum to 2.0, but the total is 4.0"),
    (FreshSpaces, "PettingZoo", "same space object"),
    (WarnsAboutAgents, "PettingZoo", "Live agent was not given observation"),
    (OwnRewards, "rewards", "the identical float"),
    (IntegerRewards, "rewards", "a Python float"),
    (ShowsReference, "no leaks", "'reference'"),
    (ShowsReferenceLater, "no leaks", "'reference'"),
    (ShowsTests, "no leaks", "'test'"),
    (ShowsTheOther, "no leaks", "'agent_1'"),
    (ShowsReferenceInState, "no leaks", "state() or the infos show 'reference'"),
    (Counts, "determinism", "two different episodes"),
    (IgnoresSeed, "determinism", "two different episodes"),
    (PaysForLength, "bounds", "not within"),
    (PaysNothingFinite, "bounds", "reward inf"),
    (PaysForSilence, "bounds", "empty actions received the score"),
    (LivesOnSilence, "silence", "turn 1 has the reward 0.5"),
    (ChokesOnNul, "bounds", "ValueError"),
    (UnreachableMaximum, "references", "reference of task 't0' receives the score 2.0, not the maximum 2.5"),
    (Truncates, "ends", "turn 2 truncates"),
    (PlaysOn, "finished", "raised nothing"),
    (RaisesSomethingElse, "finished", "raised IndexError"),
    (ForkIsItself, "forks", "ended its parent's episode"),
    (KeepsAList, "forks", "stepping a fork changed its parent"),
    (MutableState, "states", "a list, which can change"),
    (ForgetsOnPickling, "pickling", "a different episode"),
    (StateIsNoJson, "pickling", "not JSON"),
    (NoInfosAtReset, "infos", "'reward/first', 'reward/second'"),
    (NoInfosAtStep, "infos", "'reward/second'"),
    (AnswersAtLength, "tools", "200000 characters"),
    (HashDecides, "processes", "another PYTHONHASHSEED"),
]


@pytest.mark.parametrize("turns", [1, 3])
def test_an_honest_environment_passes_every_check_and_is_left_as_it_was(
    turns: int, capsys: pytest.CaptureFixture[str]
) -> None:
    env = Honest(ITEMS, max_turns=turns)
    assert check_env(env) == list(CHECKS)
    assert (env.max_turns, env.items) == (turns, ITEMS)
    assert capsys.readouterr().out == ""


def test_every_check_has_a_violation_here() -> None:
    assert {check for _, check, _ in VIOLATIONS} == set(CHECKS)


@pytest.mark.parametrize(("env", "check", "reason"), VIOLATIONS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_violation_is_named(env: type[Honest], check: str, reason: str) -> None:
    planted = env(ITEMS, max_turns=2)
    with pytest.raises(CheckFailure) as caught:
        check_env(planted)
    assert planted.max_turns == 2
    assert str(caught.value).startswith(f"planted-v0 fails the conformance check '{check}': ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("turns", [1, 3])
def test_a_lowest_reward_below_zero_is_no_violation(turns: int) -> None:
    class Strict(Honest):
        declared = replace(Honest.declared, score_range=(-1.0, 2.0))

        def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
            return super().score(item, actions) if any(actions.values()) else Score(-1.0, {"first": -1.0})

    CHECKS["bounds"](Strict(ITEMS, max_turns=turns), None)


def test_a_bad_row_beyond_the_quick_check_is_found_by_the_full_one() -> None:
    class LastIsBad(Honest):
        def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
            score = super().score(item, actions)
            return Score(score.total / 2, score.components) if item.id == "t3" else score

    env = LastIsBad(ITEMS)
    references_check = CHECKS["references"]
    references_check(env, 3)
    with pytest.raises(CheckFailure, match="'t3'"):
        references_check(env, None)


def test_a_leak_in_a_later_turn_is_found_in_an_environment_of_one() -> None:
    with pytest.raises(CheckFailure, match="'agent_1'"):
        CHECKS["no leaks"](ShowsTheOther(ITEMS, max_turns=1), None)
