"""Agent programs as environments."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from agent_programs import ROWS, over_http, plan_and_write, score, together
from safetensors.torch import load_file
from waiting import wait_until

import llm_dec_pomdp
from llm_dec_pomdp import from_program
from llm_dec_pomdp.envs import Facts, Task, TaskSource, Transition, check_env
from llm_dec_pomdp.programs import ProgramError, ProgramTask
from llm_dec_pomdp.types import Message, Score, TaskItem

ROLES = ["planner", "writer"]
ROOT = Path(__file__).parents[2]


def env_of(solve: Any, roles: list[str] | None = None, **options: Any) -> ProgramTask:
    return from_program(
        solve, roles=roles or ROLES, tasks=ROWS, split="all", score=options.pop("score", score), **options
    )


def played(env: ProgramTask, text: str | Callable[[int], str] = "a text") -> tuple[list[dict[str, str]], float]:
    """Play the first task with the same text, or a text for each turn; return the observations and the last reward."""
    observations = [env.reset(seed=0, options={"task_id": "t0"})[0]]
    reward = math.nan
    while env.agents:
        action = text if isinstance(text, str) else text(env.turn)
        after, rewards, _, _, _ = env.step(dict.fromkeys(env.agents, action))
        observations.append(after)
        reward = rewards["agent_0"]
    return observations, reward


@pytest.mark.parametrize("solve", [plan_and_write, together])
def test_a_program_passes_every_conformance_check(solve: Any) -> None:
    check_env(env_of(solve))


def test_calls_at_the_same_time_share_a_turn_and_a_repeated_conversation_continues_the_history() -> None:
    env = env_of(together)
    observations, _ = played(env, "hello")
    assert observations[0] == {"agent_0": ROWS[0]["prompt"], "agent_1": "Write."}
    assert observations[1] == {"agent_0": "The draft: hello", "agent_1": ""}
    assert [message.role for message in env.history("agent_0")] == ["observation", "action", "observation", "action"]


def test_another_conversation_of_a_role_resets_its_history() -> None:
    def solve(task: Mapping[str, Any], roles: Any) -> str:
        roles["planner"].chat("one")
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "two"}]
        return roles["planner"].chat(messages)

    env = env_of(solve)
    played(env)
    assert [message.text for message in env.history("agent_0")] == ["Be brief.\n\ntwo", "a text"]


class Native(Task[tuple[Any, ...]]):
    """The task of `plan_and_write`, written as an environment."""

    source = TaskSource("native")
    declared = Facts(name="native", roles=tuple(ROLES), components=("score",), score_range=(0, 1), shares_texts=True)

    def initial_state(self, item: TaskItem, seed: int) -> tuple[Any, ...]:
        return (item,)

    def observations(self, state: tuple[Any, ...]) -> dict[str, str]:
        item, *texts = state
        if not texts:
            return {"agent_0": item.prompt}
        return {"agent_1": f"Plan: {texts[0]}\n{item.prompt}"} if len(texts) == 1 else {}

    def transition(self, state: tuple[Any, ...], actions: Mapping[str, str], seed: int) -> Transition[tuple[Any, ...]]:
        state = (*state, *actions.values())
        if len(state) < 3:
            return Transition(state)
        value = score({}, state[-1])
        return Transition(state, value, Score(value, {"score": value}), terminated=True)


def trained_weights(env: Any) -> dict[str, torch.Tensor]:
    team = llm_dec_pomdp.load_team(env, "builtin:tiny", seed=0)
    sampling = llm_dec_pomdp.Sampling(max_new_tokens=12)
    llm_dec_pomdp.train(team, env, "magrpo", steps=3, prompts_per_step=2, group_size=2, seed=0, sampling=sampling)
    return {f"{name} {k}": v for name, policy in team.members.items() for k, v in policy.state_dict().items()}


@pytest.mark.slow
def test_three_updates_of_a_program_equal_those_of_the_same_task_as_an_environment_bit_for_bit() -> None:
    native = trained_weights(Native(ROWS, split="all", max_turns=2))
    for solve in (plan_and_write, over_http):
        weights = trained_weights(env_of(solve))
        assert all(torch.equal(native[name], weights[name]) for name in native)


def test_forks_replay_the_program() -> None:
    env = env_of(together)
    env.reset(seed=0)
    twin = env.fork()
    env.step(dict.fromkeys(env.agents, "one"))
    observations, _, _, _, _ = twin.step(dict.fromkeys(twin.agents, "two"))
    assert observations["agent_0"] == "The draft: two"
    assert env.history("agent_0")[-1].text == "The draft: one"


def test_a_fork_of_a_program_that_differs_from_run_to_run_names_the_cause() -> None:
    def forked(chance: Callable[[Any], float]) -> list[Any]:
        """The rewards of an episode and of its fork."""
        env = env_of(lambda task, roles: roles["planner"].chat(f"{chance(roles)}"))
        env.reset(seed=0)
        return [one.step(dict.fromkeys(one.agents, "one"))[1] for one in (env.fork(), env)]

    first, again = forked(lambda roles: random.Random(roles.seed).random())
    assert first == again
    with pytest.raises(ProgramError, match=r"roles\.seed"):
        forked(lambda roles: random.random())


FAILURES: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (lambda task, roles: {}["missing"], "KeyError"),
    "calls no role": (lambda task, roles: "done", "without a call"),
    "calls for ever": (lambda task, roles: [roles["planner"].chat("x") for _ in range(99)], "max_turns = 3"),
    "calls an unknown role": (lambda task, roles: roles["painter"].chat("x"), "no role 'painter'"),
    "exits": (lambda task, roles: sys.exit(3), "SystemExit"),
    "sends no message of a user": (lambda task, roles: roles["planner"].chat([]), "messages is missing"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_program_that_fails_is_unscorable_and_says_why(case: str) -> None:
    solve, reason = FAILURES[case]
    env = env_of(solve, max_turns=3)
    _, reward = played(env)
    assert math.isnan(reward)
    assert env.last_score is not None
    assert reason in env.last_score.notes["program"]


def test_a_program_without_calls_is_ended_at_its_timeout() -> None:
    import threading

    env = env_of(lambda task, roles: threading.Event().wait(60), timeout=0.1)
    _, reward = played(env)
    assert math.isnan(reward)


def test_a_program_may_catch_the_error_of_a_further_call_and_is_scored() -> None:
    def solve(task: Mapping[str, Any], roles: Any) -> str:
        texts: list[str] = []
        try:
            while True:
                texts.append(roles["planner"].chat("x"))
        except ValueError:
            return " ".join(texts)

    _, reward = played(env_of(solve, max_turns=3), lambda turn: f"text{turn}")
    assert reward == pytest.approx(3 / 60)


def test_rewards_by_role_and_rewards_of_turns() -> None:
    def solve(task: Mapping[str, Any], roles: Any) -> str:
        roles["planner"].chat("x")
        llm_dec_pomdp.reward(0.25)
        return roles["writer"].chat("y")

    def rewards(task: Mapping[str, Any], result: str, trace: Any) -> dict[str, float]:
        assert [call["role"] for call in trace] == ROLES
        return {"planner": 1.0, "writer": 2.0}

    env = env_of(solve, score=None, rewards=rewards, reward_range=(0, 3))
    env.reset(seed=0)
    _, first, _, _, _ = env.step(dict.fromkeys(env.agents, "a"))
    _, last, _, _, _ = env.step(dict.fromkeys(env.agents, "b"))
    assert first == {"agent_0": 0.25, "agent_1": 0.25}
    assert last == {"agent_0": 1.0, "agent_1": 2.0}
    with pytest.raises(RuntimeError):
        llm_dec_pomdp.reward(1.0)


def test_tools_of_a_call_reach_the_agent_and_its_calls_reach_the_program() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": schema}}]

    def solve(task: Mapping[str, Any], roles: Any) -> str:
        messages: list[Any] = [{"role": "user", "content": "Which weather?"}]
        for _ in range(2):
            message = roles["planner"].create(messages, tools=tools)["choices"][0]["message"]
            messages.append(message)
            for call in message.get("tool_calls", ()):
                assert call["function"] == {"name": "weather", "arguments": '{"city": "Bern"}'}
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "rain"})
        return message["content"]

    env = env_of(solve)
    env.reset(seed=0)
    assert [tool.name for tool in env.tools("agent_0")] == ["weather"]
    text = '<tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call>'
    env.step(dict.fromkeys(env.agents, text))
    assert env.history("agent_0")[-1] == Message("tool", "rain", "weather")
    env.step(dict.fromkeys(env.agents, "It rains."))
    assert env.last_score is not None
    assert env.last_score.scorable


def test_a_role_of_another_episode_is_refused() -> None:
    kept: list[Any] = []

    def solve(task: Mapping[str, Any], roles: Any) -> str:
        kept.append(roles)
        return kept[0]["planner"].chat("x")

    env = env_of(solve)
    played(env)
    _, reward = played(env)
    assert math.isnan(reward)
    assert env.last_score is not None
    assert "another episode" in env.last_score.notes["program"]


BAD = {
    "a role twice": {"roles": ["a", "a"]},
    "no roles": {"roles": []},
    "a role with a slash": {"roles": ["a/b"]},
    "a text as program": {"solve": "python agent.py"},
    "no score": {"score": None},
    "choices of an unknown role": {"choices": {"painter": ["red"]}},
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_arguments_are_refused(case: str) -> None:
    given: dict[str, Any] = {"solve": plan_and_write, "roles": ROLES, "score": score, **BAD[case]}
    with pytest.raises(ValueError, match=r"role|program|score"):
        from_program(given.pop("solve"), tasks=ROWS, **given)


@pytest.mark.slow
def test_a_file_with_a_program_is_an_environment_and_learns() -> None:
    returns: dict[str, float] = {}
    for learner in ("magrpo", "magrpo_shuffled"):
        env = llm_dec_pomdp.make(f"{ROOT}/examples/programs/painters.py:solve", split="all")
        team = llm_dec_pomdp.load_team(env)
        llm_dec_pomdp.train(team, env, learner, steps=40, seed=0)
        returns[learner] = llm_dec_pomdp.evaluate(team, env, samples=20).return_percent.mean
    assert returns["magrpo"] > returns["magrpo_shuffled"] + 20


@pytest.mark.slow
def test_a_training_of_a_program_that_is_killed_and_resumed_equals_one_that_is_not(tmp_path: Path) -> None:
    def start(*options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "from llm_dec_pomdp.cli import main; main()", "train", *options]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    options = (f"{ROOT}/examples/programs/painters.py:solve", "--steps", "16", "--save-every", "2")
    assert start(*options, "--out", "whole").wait() == 0
    process = start(*options, "--out", "killed")
    wait_until(lambda: len(list(tmp_path.glob("killed/cells/*/checkpoints/step-*"))) > 1, process)
    process.kill()
    assert process.wait() != 0
    assert start("--resume", "killed", "--trust").wait() == 0
    whole, killed = (
        {path.parent.name: load_file(path) for path in tmp_path.glob(f"{folder}/cells/*/team/*/*.safetensors")}
        for folder in ("whole", "killed")
    )
    assert whole
    assert all(torch.equal(tensor, killed[role][name]) for role in whole for name, tensor in whole[role].items())
