from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from tasks import ITEMS, WORDS, Duo, duo

import llm_dec_pomdp
from llm_dec_pomdp.envs.wrappers import (
    ByteObservation,
    DiscreteMenu,
    FixedRoster,
    Sequential,
    VecEnv,
    make_vec,
)
from llm_dec_pomdp.types import Score, TaskItem

HIT = {"agent_0": "alpha", "agent_1": "beta"}
MISS = {"agent_0": "no", "agent_1": "idea"}


def numbers(max_turns: int = 1) -> Any:
    return FixedRoster(ByteObservation(DiscreteMenu(duo(max_turns), WORDS), 64))


# --- batches ----------------------------------------------------------------------------------------------------------


def test_texts_are_a_list_of_dicts() -> None:
    envs = make_vec(duo, 3)
    observations, infos = envs.reset(options=[{"index": i} for i in (0, 1, 4)])
    assert isinstance(observations, list)
    assert [observation["agent_0"] for observation in observations] == [
        f"post {i}\n\nwrite the first part" for i in (0, 1, 4)
    ]
    assert infos == [{agent: {"reward/hits": 0.0, "asked": 1.0} for agent in HIT}] * 3


def test_numbers_are_one_array_per_agent() -> None:
    envs = make_vec(numbers, 3)
    observations, _ = envs.reset(seed=0)
    assert isinstance(observations, dict)
    assert {agent: (array.shape, array.dtype) for agent, array in observations.items()} == {
        agent: ((3, 64), np.dtype(np.uint8)) for agent in HIT
    }


def test_rewards_and_ends_are_arrays_of_the_team() -> None:
    envs = make_vec(duo, 3, max_turns=2)
    envs.reset(seed=0)
    _, rewards, terminations, truncations, infos = envs.step([HIT, MISS, {**HIT, "agent_0": "no"}])
    assert rewards.tolist() == [2.0, 0.0, 1.0]
    assert terminations.tolist() == [True, False, False]
    assert truncations.tolist() == [False, False, False]
    _, rewards, terminations, truncations, _ = envs.step([MISS, HIT, MISS])
    assert rewards.tolist() == [0.0, 2.0, -1.0]
    assert terminations.tolist() == [False, True, True]
    assert truncations.tolist() == [False, False, False]
    assert "final_obs" not in infos[1]


def test_the_copies_play_what_single_environments_play() -> None:
    envs = make_vec("tldr-v0", 3, split="test", max_turns=2)
    observations, _ = envs.reset(seed=7)
    singles = [llm_dec_pomdp.make("tldr-v0", split="test", max_turns=2) for _ in range(3)]
    assert observations == [env.reset(seed=7 + i)[0] for i, env in enumerate(singles)]
    for turn in range(4):
        actions = [{"agent_0": f"so {turn}", "agent_1": f"but {i} " * 9} for i in range(3)]
        observations, rewards, *_ = envs.step(actions)
        for i, env in enumerate(singles):
            alone, single_rewards, *_ = env.step(actions[i])
            assert rewards[i] == single_rewards["agent_0"]
            assert observations[i] == (alone if env.agents else env.reset()[0])  # type: ignore[index]


def test_every_wrapped_environment_is_built_anew_by_a_callable() -> None:
    envs = make_vec(lambda max_turns: Sequential(duo(max_turns)), 2, max_turns=3)
    assert [env.max_turns for env in envs.envs] == [6, 6]
    env = duo()
    with pytest.raises(ValueError, match="is given more than once"):
        make_vec(lambda: env, 2)


# --- the end of an episode --------------------------------------------------------------------------------------------


def test_same_step_returns_the_next_episode_and_keeps_the_last_words_of_the_old_one() -> None:
    envs = make_vec(numbers, 2)
    envs.reset(seed=0)
    observations, rewards, terminations, truncations, infos = envs.step({"agent_0": [0, 2], "agent_1": [1, 2]})
    assert (terminations.tolist(), truncations.tolist()) == ([True, True], [False, False])
    assert rewards.tolist() == [2.0, 0.0]
    assert isinstance(observations, dict)
    assert observations["agent_0"].any(axis=1).all()
    for info, hits in zip(infos, (2.0, 0.0), strict=True):
        assert not info["final_obs"]["agent_0"].any()
        assert info["final_info"]["agent_0"]["reward/hits"] == hits
        assert info["final_info"]["agent_0"]["asked"] == 0.0
        assert info["agent_0"]["asked"] == 1.0
    assert all(env.agents for env in envs.envs)


def test_next_step_resets_one_step_later_and_ignores_that_action() -> None:
    envs = make_vec(duo, 2, max_turns=2, autoreset=AutoresetMode.NEXT_STEP)
    envs.reset(seed=0)
    observations, rewards, terminations, _, infos = envs.step([HIT, MISS])
    assert observations[0] == {"agent_0": "", "agent_1": ""}  # type: ignore[index]
    assert terminations.tolist() == [True, False]
    assert infos[0]["agent_0"]["reward/hits"] == 2.0
    observations, rewards, terminations, truncations, infos = envs.step([HIT, MISS])
    assert observations[0]["agent_0"].startswith("post")  # type: ignore[index]
    assert rewards.tolist() == [0.0, 0.0]
    assert terminations.tolist() == [False, True]
    assert truncations.tolist() == [False, False]
    assert infos[0]["agent_0"]["reward/hits"] == 0.0
    _, rewards, terminations, truncations, _ = envs.step([HIT, HIT])
    assert rewards.tolist() == [2.0, 0.0]
    assert truncations.tolist() == [False, False]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, "NEXT_STEP"])
def test_a_reset_forgets_which_copies_were_over(mode: Any) -> None:
    envs = make_vec(duo, 2, autoreset=mode)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    envs.reset(seed=0)
    envs.step([HIT, HIT])
    envs.reset(seed=0)
    _, rewards, *_ = envs.step([HIT, MISS])
    assert rewards.tolist() == [2.0, 0.0]


# --- concurrency ------------------------------------------------------------------------------------------------------


class Together(Duo):
    """A judge that answers when all copies have asked."""

    declared = replace(Duo.declared, judges_code=True)
    all_have_asked = threading.Barrier(8)

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        self.all_have_asked.wait(timeout=30)
        return super().score(item, actions)


def test_rewards_are_judged_concurrently() -> None:
    envs = make_vec(lambda: DiscreteMenu(Together(ITEMS), WORDS), 8)
    envs.reset(seed=0)
    _, rewards, *_ = envs.step({"agent_0": [0] * 8, "agent_1": [1] * 8})
    assert rewards.tolist() == [2.0] * 8


# --- seeds and errors -------------------------------------------------------------------------------------------------


def test_seeds_may_be_given_one_by_one_and_options_for_all() -> None:
    envs = make_vec(duo, 3)
    assert envs.reset(seed=[5, 5, 6])[0] == [duo().reset(seed=seed)[0] for seed in (5, 5, 6)]
    observations, _ = envs.reset(options={"task_id": "t3"})
    assert [observation["agent_1"][:6] for observation in observations] == ["post 3"] * 3  # type: ignore[union-attr]


def begun() -> VecEnv:
    envs = make_vec(duo, 2)
    envs.reset(seed=0)
    return envs


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: begun().reset(seed=[1]), "1 seeds for 2"),
        (lambda: begun().reset(options=[{}] * 3), "3 options for 2"),
        (lambda: begun().step([HIT]), "1 joint actions for 2"),
        (lambda: begun().step({"agent_0": ["x"], "agent_1": ["x", "y"]}), "1 actions of agent_0 for 2"),
        (lambda: make_vec(duo, 0), "num_envs is 0"),
        (lambda: make_vec(duo, 2, autoreset=AutoresetMode.DISABLED), "autoreset"),
        (lambda: make_vec(duo, 2, autoreset="NEXTSTEP"), "'NEXTSTEP'"),
        (lambda: VecEnv([duo(), DiscreteMenu(duo(), WORDS)]), "environment 1"),
    ],
)
def test_what_does_not_fit_is_named(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        call()


def test_close_closes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Duo] = []
    monkeypatch.setattr(Duo, "close", lambda self: closed.append(self))
    envs = make_vec(duo, 2)
    envs.close()
    assert closed == list(envs.envs)
