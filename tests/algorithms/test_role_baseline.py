"""advantage="role": an exponential mean of returns for each agent, by hand, over updates and in checkpoints."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import AGENTS, same, sampled, softmax_team, weights

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.algorithms.advantages import exponential_baselines
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.types import Episode, Group, Turn


def learner(**options: Any) -> MAGRPO:
    return MAGRPO(softmax_team(), Sampling(max_new_tokens=1), MAGRPO.Config(advantage="role", **options))


def played(*episodes: list[tuple[float, float]]) -> Group:
    """A group of episodes, each with the rewards of both agents at every turn."""
    recorded: list[Episode] = []
    for number, rewards in enumerate(episodes):
        turns: list[Turn] = []
        for both in rewards:
            texts = {agent: sampled(0) for agent in AGENTS}
            turns.append(Turn(dict.fromkeys(AGENTS, ""), texts, both[0], rewards=dict(zip(AGENTS, both, strict=True))))
        recorded.append(Episode("t", number, tuple(turns), terminated=True))
    return Group("t", tuple(recorded))


def test_the_equation() -> None:
    """b starts at 1; A_k = R_k - b_k, b_(k+1) = 0.5 b_k + 0.5 R_k; a return without a score changes nothing."""
    before, after = exponential_baselines([3.0, math.nan, -4.0], 1.0, 0.5)
    assert (before.tolist(), after) == ([1.0, 2.0, 2.0], -1.0)
    rewards = np.random.default_rng(0).normal(size=50)
    weights = 0.05 * 0.95 ** np.arange(50)[::-1]
    assert exponential_baselines(rewards.tolist(), 0.0, 0.95)[1] == pytest.approx(weights @ rewards)


def test_each_agent_has_its_own_mean_which_earlier_updates_and_all_turns_of_an_episode_share() -> None:
    algorithm = learner(baseline_decay=0.5)
    first = algorithm.samples([played([(2.0, -2.0)], [(0.0, 0.0), (4.0, -4.0)])])
    by_agent = {agent: [s.advantage for s in first if s.agent == agent] for agent in AGENTS}
    assert by_agent == {"agent_0": [2.0, 3.0, 3.0], "agent_1": [-2.0, -3.0, -3.0]}  # b: 0, then 1 for both turns
    assert algorithm.baselines == {"agent_0": 2.5, "agent_1": -2.5}
    again = algorithm.samples([played([(2.5, 0.0)])])
    assert [s.advantage for s in again] == [0.0, 2.5]


def test_a_resumed_run_has_the_same_baselines(tmp_path: Path) -> None:
    env = llm_dec_pomdp.make("kuhn-v0")

    def trained(folder: str, steps: int) -> MAGRPO:
        team = llm_dec_pomdp.load_team(env, "builtin:table")
        options: dict[str, Any] = {"prompts_per_step": 3, "group_size": 2, "advantage": "role"}
        found = llm_dec_pomdp.train(team, env, steps=steps, checkpoints=tmp_path / folder, **options)
        assert isinstance(found, MAGRPO)
        return found

    whole, _ = trained("whole", 4), trained("parts", 2)
    parts = trained("parts", 4)
    assert parts.baselines == whole.baselines != {}
    assert same(weights(parts.team), weights(whole.team))
