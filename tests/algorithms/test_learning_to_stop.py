"""Every learner learns to stop, without knowing that one can."""

from __future__ import annotations

import math

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.algorithms.registration import algorithms, build_algorithm, find_algorithm
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Trajectories


def test_a_team_that_loses_by_going_on_learns_to_stop() -> None:
    """Blind doors cost 46 a turn on average, and listening 2; a stop at once costs one turn, 1."""
    env = llm_dec_pomdp.make("dectiger-v0", max_turns=2, stopping={"cost": 1.0})
    team = load_team(env.possible_agents, "builtin:table", menus={a: env.choices(a) for a in env.possible_agents})
    sampling = Sampling(max_new_tokens=1)
    learner = build_algorithm("magrpo", {"learning_rate": 0.3}, team, sampling)
    for step in range(25):
        learner.update(
            learner.rollout.play(env, learner.policy, ["dectiger"] * 4, range(4 * step, 4 * step + 4), sampling, 4)
        )
    [group] = Trajectories("own").play(env, learner.policy, ["dectiger"], [1], sampling, 200)
    stopped = [len(e.turns) == 1 and bool(e.turns[0].events) for e in group.episodes]
    assert sum(stopped) > 160


LEARNERS = [name for name in algorithms if find_algorithm(name).load().learns()]
CONTROLS = {"shuffled", "mgrpo_shuffled"}  # learn from rewards of others
LEARNERS.remove("reward_model")  # learns from recordings what others are paid
LEARNERS.remove("distil")  # learns from the script with tables alone, see tests/contrib/learners


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "name", [name if name in ("magrpo", "madpo") else pytest.param(name, marks=pytest.mark.slow) for name in LEARNERS]
)
def test_every_learner_moves_the_decision_to_stop(name: str) -> None:
    """A look costs 20 and shows 9 at most; there is one decision, so that whatever is learnt is learnt about it."""
    env = with_protocol(llm_dec_pomdp.make("scouts-v0", max_turns=1, cost=20.0), find_algorithm(name).protocol)
    team = load_team(env.possible_agents, "builtin:words", vocabulary=["LOOK", "STOP"])
    sampling = Sampling(max_new_tokens=1)
    learner = build_algorithm(name, {"learning_rate": 1e-2}, team, sampling)

    def stops() -> float:
        [group] = Trajectories("own").play(env, learner.policy, ["scouts"], [1], sampling, 300)
        return sum(episode.total == 0 for episode in group.episodes) / 300

    before = stops()
    for step in range(5):
        groups = learner.rollout.play(env, learner.policy, ["scouts"] * 8, range(8 * step, 8 * step + 8), sampling, 8)
        metrics = learner.update(groups)
        assert all(math.isfinite(value) for value in metrics.values())
    assert stops() != before if name in CONTROLS else stops() > 0.9 > before
