"""A task whose agents have tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents.tool_calls import messages_of
from llm_dec_pomdp.envs.checks import CheckFailure, check_env
from llm_dec_pomdp.envs.tools import Limits
from llm_dec_pomdp.envs.tools.function import kit
from llm_dec_pomdp.envs.tools.ready import calculator, notes
from llm_dec_pomdp.envs.wrappers import Sequential, WithTools

CALL = "calculate('1 + 1')"


def given(rounds: int = 2, **options: Any) -> WithTools:
    env = WithTools(llm_dec_pomdp.make("tldr-v0"), [calculator(), notes()], rounds=rounds, **options)
    env.reset(seed=0, options={"index": 0})
    return env


def test_agents_call_then_answer() -> None:
    env, gold = given(), llm_dec_pomdp.make("tldr-v0")
    first, second = gold.items[0].reference
    observations, rewards, *_ = env.step({"agent_0": CALL, "agent_1": second})
    assert observations == {"agent_0": "2", "agent_1": ""}
    assert rewards == {"agent_0": 0.0, "agent_1": 0.0}
    assert (env.asked("agent_0"), env.asked("agent_1")) == (True, False)
    assert [e.kind for e in env.latest.transition.events] == ["call", "result"]
    _, rewards, terminations, *_ = env.step({"agent_0": first, "agent_1": ""})
    gold.reset(seed=0, options={"index": 0})
    assert rewards == gold.step({"agent_0": first, "agent_1": second})[1]
    assert all(terminations.values())


def test_the_last_text_is_the_answer_whatever_it_says() -> None:
    env = given(rounds=1)
    observations, *_ = env.step({"agent_0": CALL, "agent_1": CALL})
    assert observations["agent_0"].endswith("Your next text is your answer.")
    *_, terminations, _, _ = env.step({"agent_0": CALL, "agent_1": CALL})
    assert all(terminations.values())


def test_calls_cost_what_they_cost() -> None:
    env = given(limits={"calculate": Limits(price=0.5)})
    _, rewards, *_ = env.step({"agent_0": f"[{CALL}, {CALL}]", "agent_1": CALL})
    assert set(rewards.values()) == {-1.5}
    assert env.facts.reward_range[0] <= -1.5


def test_several_turns_of_the_task_each_have_rounds() -> None:
    env = WithTools(llm_dec_pomdp.make("tldr-v0", max_turns=2), [calculator()], rounds=1)
    env.reset(seed=0)
    played = 0
    while env.agents:
        env.step(dict.fromkeys(env.agents, CALL))
        played += 1
    assert (played, env.max_turns) == (4, 4)


def test_a_server_gets_an_answer_for_each_call() -> None:
    env = given()
    calls = [f'<tool_call>{{"name": "note", "arguments": {{"text": "{word}"}}}}</tool_call>' for word in "ab"]
    env.step({"agent_0": "\n".join(calls), "agent_1": CALL})
    messages = messages_of(env.history("agent_0"))
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["kept as note 1", "kept as note 2"]


def test_wrong_options_are_named() -> None:
    with pytest.raises(ValueError, match="rounds is 0"):
        given(rounds=0)
    with pytest.raises(ValueError, match="sumary"):
        given(users={"notes": ["sumary"]})
    with pytest.raises(TypeError, match="tldr-v0/tools"):
        WithTools(given(), [calculator()])
    with pytest.raises(TypeError, match="sequential"):
        WithTools(Sequential(llm_dec_pomdp.make("tldr-v0")), [calculator()])


def test_tools_that_keep_something_elsewhere_cannot_be_copied_once_they_were_called() -> None:
    env = WithTools(llm_dec_pomdp.make("tldr-v0"), [calculator(), replace(notes(), copies=False)])
    env.reset(seed=0)
    env.fork().step(dict.fromkeys(env.agents, CALL))
    env.step({"agent_0": "note('a')", "agent_1": CALL})
    with pytest.raises(ValueError, match="'notes'"):
        env.fork()
    env.reset(seed=0)
    env.snapshot()


def test_roles_may_have_unlike_tools() -> None:
    env = given(users={"notes": ["summary"]})
    assert {t.name for t in env.tools("agent_0")} - {t.name for t in env.tools("agent_1")} == {
        "note",
        "read_notes",
        "forget",
    }


@pytest.mark.slow
def test_every_law_holds() -> None:
    assert "tools" in check_env(WithTools(llm_dec_pomdp.make("tldr-v0"), [calculator(), notes()]), rows=1)


def peek(path: str) -> str:
    """Read a file of the machine."""
    return Path(path).read_text()


_written: list[str] = []


def remember(text: str) -> str:
    """Keep a text outside the state."""
    _written.append(text)
    return str(len(_written))


@pytest.mark.slow
@pytest.mark.parametrize(("call", "why"), [(peek, "a file of this machine"), (remember, "fork")])
def test_tools_that_reach_beyond_the_state_fail_a_check(call: Any, why: str) -> None:
    from llm_dec_pomdp.envs.checks.tools import tools_check

    with pytest.raises(CheckFailure, match=why):
        tools_check(WithTools(llm_dec_pomdp.make("tldr-v0"), [kit("bad", call)]), 1)
