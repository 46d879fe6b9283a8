"""The contract of an environment: reset, step, turns, and the state that they leave."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tasks import references
from toy import ITEMS, MISS, Toy, chosen, playing, toy

from llm_dec_pomdp.envs.base import NotAskedToStepError
from llm_dec_pomdp.types import Message, Score, TaskItem, conversation

# --- shape ------------------------------------------------------------------------------------------------------------


def test_agents_have_roles_and_live_from_reset_on() -> None:
    env = toy()
    assert env.possible_agents == ["agent_0", "agent_1"]
    assert [env.role(agent) for agent in env.possible_agents] == ["asker", "answerer"]
    assert env.agents == []
    env.reset(seed=0)
    assert env.agents == env.possible_agents
    assert env.agents is not env.possible_agents


# --- reset ------------------------------------------------------------------------------------------------------------


def test_a_reset_tells_every_agent_its_observation_and_components_of_zero() -> None:
    env = toy()
    observations, infos = env.reset(options={"index": 2})
    assert observations == {"agent_0": "question 2, asker?", "agent_1": "question 2, answerer?"}
    assert infos == {agent: {"reward/first": 0.0, "reward/second": 0.0, "asked": 1.0} for agent in env.agents}


def test_a_seed_decides_this_and_all_later_tasks() -> None:
    env = toy()
    drawn = chosen(env, 3, 10)
    assert drawn == chosen(env, 3, 10) == chosen(toy(), 3, 10)
    assert drawn != chosen(toy(), 4, 10)
    assert set(chosen(env, 0, 100)) == {item.id for item in ITEMS}


def test_the_global_random_state_decides_nothing() -> None:
    np.random.seed(0)  # noqa: NPY002  # the point is that it does not matter
    before = chosen(toy(), 3, 5)
    np.random.seed(1)  # noqa: NPY002
    assert chosen(toy(), 3, 5) == before


def test_choosing_a_task_leaves_later_draws_alone() -> None:
    plain, chosen_first = toy(), toy()
    plain.reset(seed=5, options={"index": 0})
    chosen_first.reset(seed=5, options={"task_id": "t4"})
    assert chosen(plain, None, 5) == chosen(chosen_first, None, 5)


@pytest.mark.parametrize("options", [{"task_id": "t3"}, {"index": 3}, {"index": np.int64(3)}, {"index": 3, "other": 1}])
def test_a_task_is_chosen_by_id_or_index_and_other_options_are_ignored(options: dict[str, Any]) -> None:
    env = toy()
    env.reset(options=options)
    assert env.item is ITEMS[3]


def test_reset_forgets_the_episode() -> None:
    env = playing(max_turns=3)
    env.step(MISS)
    env.reset(options={"index": 1})
    assert (env.turn, env.last_score, len(env.history("agent_0"))) == (0, None, 1)


# --- step -------------------------------------------------------------------------------------------------------------


def test_every_agent_gets_the_identical_float_and_the_components() -> None:
    env, actions = playing(), {"agent_0": "secret-0a", "agent_1": "no"}
    _, rewards, _, _, infos = env.step(actions)
    assert actions == {"agent_0": "secret-0a", "agent_1": "no"}
    assert env.last_score is not None
    assert env.last_score.notes == {"action": "secret-0a"}
    assert rewards == {"agent_0": 1.0, "agent_1": 1.0}
    assert rewards["agent_0"] is rewards["agent_1"]
    assert infos == {agent: {"reward/first": 1.0, "reward/second": 0.0, "asked": 0.0} for agent in actions}
    assert infos["agent_0"] is not infos["agent_1"]


@pytest.mark.parametrize("max_turns", [1, 3])
def test_solving_is_termination_and_no_truncation(max_turns: int) -> None:
    env = playing(max_turns=max_turns)
    _, _, terminations, truncations, _ = env.step(references(env, env.item))
    assert terminations == {"agent_0": True, "agent_1": True}
    assert truncations == {"agent_0": False, "agent_1": False}


def test_an_unscorable_action_is_nan_for_everybody() -> None:
    _, rewards, terminations, _, _ = playing(max_turns=2).step({"agent_0": "?", "agent_1": ""})
    assert all(math.isnan(reward) for reward in rewards.values())
    assert set(terminations.values()) == {False}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_turn_that_was_interrupted_was_not_played(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = playing()

    def fail(*_: Any) -> Score:
        raise error

    before = env.state()
    with monkeypatch.context() as patched:
        patched.setattr(Toy, "score", fail)
        with pytest.raises(error):
            env.step(MISS)
    assert env.state() == before
    _, rewards, *_ = env.step(references(env, env.item))
    assert rewards == {"agent_0": 2.0, "agent_1": 2.0}


def test_stepping_without_an_episode_says_what_to_do() -> None:
    env = toy()
    with pytest.raises(NotAskedToStepError, match="toy-v0 has not begun"):
        env.step(MISS)
    with pytest.raises(NotAskedToStepError, match="reset"):
        _ = env.item
    env.reset()
    env.step(MISS)
    with pytest.raises(NotAskedToStepError, match="toy-v0 is over"):
        env.step(MISS)


@pytest.mark.parametrize("action", [None, 3, b"bytes", ["text"]])
def test_an_action_that_is_no_text_is_named_and_changes_nothing(action: Any) -> None:
    env = playing(max_turns=2)
    before = env.state()
    with pytest.raises(TypeError, match=f"agent_1 is a {type(action).__name__}"):
        env.step({"agent_0": "x", "agent_1": action})
    assert env.state() == before
    env.step(MISS)


# --- turns ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_an_episode_has_max_turns_which_may_be_assigned_while_it_runs(turns: int) -> None:
    env = playing(max_turns=1)
    env.max_turns = turns
    played = 0
    while env.agents:
        env.step(MISS)
        played += 1
    assert played == turns == env.turn


def test_a_history_is_what_the_agent_was_told_and_said_itself() -> None:
    env = playing(max_turns=2)
    observations = env.step({"agent_0": "", "agent_1": "idea"})[0]
    assert all("Revise" in text for text in observations.values())
    assert env.history("agent_0") == conversation("question 0, asker?", "", observations["agent_0"])
    env.step({"agent_0": "still", "agent_1": "nothing"})
    assert [len(env.history(agent)) for agent in env.possible_agents] == [4, 4]
    assert env.history("agent_1")[-1] == Message("action", "nothing")


class OneSpeaks(Toy):
    """Only agent_0 is asked at the first turn."""

    def observe(self, item: TaskItem, agent: str) -> str:
        return super().observe(item, agent) if agent == "agent_0" else ""


def test_an_action_of_an_agent_that_was_not_asked_is_not_in_its_history() -> None:
    env = OneSpeaks(ITEMS, max_turns=2)
    env.reset(options={"index": 0})
    env.step(MISS)
    assert len(env.history("agent_1")) == 1
    assert "idea" not in env.history("agent_1")[0].text


def test_max_cycles_is_max_turns() -> None:
    env = toy(max_turns=4)
    assert env.max_cycles == 4
    env.max_cycles = 7
    assert env.max_turns == 7


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: toy(render_mode="humna"), ValueError, "'humna'"),
        *(
            (lambda turns=turns: toy(max_turns=turns), ValueError, repr(turns))
            for turns in (0, -1, 1.5, "2", None, True)
        ),
        (lambda: setattr(toy(), "max_cycles", 0), ValueError, "0"),
        (lambda: toy().reset(options={"task_id": "t44"}), KeyError, "'t44'"),
        *(
            (lambda index=index: toy().reset(options={"index": index}), IndexError, repr(index))
            for index in (-1, 6, "0", None, 1.0)
        ),
        *(
            (lambda actions=actions: playing().step(actions), KeyError, str(sorted(actions)))
            for actions in ({}, {"agent_0": "x"}, {**MISS, "agent_2": "x"}, {"agent_0": "x", "agent_9": "y"})
        ),
    ],
)
def test_a_wrong_value_is_named(call: Callable[[], Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert named in caught.value.args[0]


# --- state, item, gold ------------------------------------------------------------------------------------------------


def test_state_is_json_with_task_turn_and_histories_and_no_secret() -> None:
    env = playing(1, max_turns=2)
    env.step({"agent_0": "\ud800\x00", "agent_1": "\u2028"})
    state = json.loads(env.state())
    assert state["task"] == {"id": "t1", "prompt": "question 1"}
    assert state["turn"] == 1
    assert state["histories"]["agent_0"][:2] == [
        ["observation", "question 1, asker?", ""],
        ["action", "\ud800\x00", ""],
    ]
    assert "secret" not in env.state()
    assert "hidden-1" not in env.state()
    assert json.loads(toy().state())["task"] is None
