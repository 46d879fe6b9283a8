"""advantage="batch": returns are compared over a whole update, by hand and where no group could teach anything."""

from __future__ import annotations

import math
from typing import Any

import pytest
from models import AGENTS, episode, match, sampled, softmax_team
from updates import agreement

from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.types import Group

SAMPLING = Sampling(max_new_tokens=1)


def learner(**options: Any) -> MAGRPO:
    return MAGRPO(softmax_team(), SAMPLING, MAGRPO.Config(advantage="batch", **options))


def alone(*rewards: float) -> Group:
    """A group of one episode, paid at every turn."""
    return Group("t", (episode(rewards, [{agent: sampled(0) for agent in AGENTS} for _ in rewards]),))


def test_dense_rewards_of_single_episodes_by_hand() -> None:
    # R = (1 + 0, 0) and (0 + 3 / 2, 3): mean 1.375, deviations -0.375, -1.375, 0.125, 1.625, variance 4.6875 / 4
    samples = learner(gamma=0.5).samples([alone(1.0, 0.0), alone(0.0, 3.0)])
    scale = math.sqrt(4.6875 / 4)
    wanted = [d / scale for d in (-0.375, -1.375, 0.125, 1.625) for _ in AGENTS]
    assert [s.advantage for s in samples] == pytest.approx(wanted)


def test_what_has_no_score_is_in_no_mean_and_equal_returns_teach_nothing() -> None:
    samples = learner().samples([alone(2.0), alone(math.nan), alone(4.0)])
    assert [s.advantage for s in samples] == [-1.0, -1.0, 1.0, 1.0]
    assert {s.advantage for s in learner().samples([alone(2.0), alone(2.0)])} == {0.0}


def test_in_a_tree_a_text_counts_by_its_share() -> None:
    algorithm = learner(tree=True)
    groups = algorithm.rollout.play(match(max_turns=2), algorithm.team, ["t0", "t1"], [0, 1], SAMPLING, 2)
    samples = algorithm.samples(groups)
    assert {s.weight for s in samples} > {1.0}
    assert sum(s.weight * s.advantage for s in samples) == pytest.approx(0.0, abs=1e-9)
    assert sum(s.weight * s.advantage**2 for s in samples) == pytest.approx(sum(s.weight for s in samples))


def test_a_team_learns_from_groups_of_one() -> None:
    algorithm = learner(learning_rate=0.1)
    env = match()
    ids = [item.id for item in env.items] * 2
    for step in range(60):
        seeds = [100 * step + place for place in range(len(ids))]
        algorithm.update(algorithm.rollout.play(env, algorithm.team, ids, seeds, SAMPLING))
    assert agreement(algorithm.team) > 0.9
