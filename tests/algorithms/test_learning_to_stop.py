"""Every learner learns to stop, without knowing that one can."""

from __future__ import annotations

from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.loading import load_team
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.rollout import Trajectories


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("magrpo", {}),
        ("mareinforce", {}),
        ("marloo", {}),
        ("maremax", {}),
        ("mgrpo", {}),
        ("magrpo", {"credit": "counterfactual"}),
        ("magrpo", {"pairing": "cross", "tree": True}),
    ],
)
def test_a_team_that_loses_by_going_on_learns_to_stop(name: str, options: dict[str, Any]) -> None:
    """Blind doors cost 46 a turn on average, and listening 2; a stop at once costs one turn, 1."""
    env = llm_dec_pomdp.make("dectiger-v0", max_turns=2, stopping={"cost": 1.0})
    team = load_team(env.possible_agents, "builtin:table", menus={a: env.menu(a) for a in env.possible_agents})
    sampling = Sampling(max_new_tokens=1)
    learner = build_algorithm(name, {"learning_rate": 0.3, **options}, team, sampling)
    for step in range(25):
        learner.update(
            learner.rollout.play(env, learner.policy, ["dectiger"] * 4, range(4 * step, 4 * step + 4), sampling, 4)
        )
    [group] = Trajectories("own").play(env, learner.policy, ["dectiger"], [1], sampling, 200)
    stopped = [len(e.turns) == 1 and bool(e.turns[0].events) for e in group.episodes]
    assert sum(stopped) > 160
