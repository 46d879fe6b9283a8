"""The control keeps everything but the link between a text and what it earned."""

from __future__ import annotations

import numpy as np
from models import Softmax, softmax_team

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.controls import Shuffled
from llm_dec_pomdp.algorithms.magrpo import MAGRPOConfig
from llm_dec_pomdp.algorithms.registration import find_algorithm
from llm_dec_pomdp.types import Branch, Completion, Decision, Episode, Group, Turn

ONE_WORD = Sampling(max_new_tokens=1)


def said(text: str) -> Completion:
    return Completion(text, (0,), (1,), (-1.0,))


def episode(seed: int, *rewards: float) -> Episode:
    turns = tuple(Turn({"agent_0": "?"}, {"agent_0": said(f"turn {t}")}, r) for t, r in enumerate(rewards))
    return Episode("a", seed, turns, terminated=True)


def test_whole_returns_change_places_also_with_episodes_that_ended() -> None:
    learner = Shuffled(softmax_team(), ONE_WORD)
    orders: set[tuple[tuple[float, ...], ...]] = set()
    for seed in range(20):
        group = Group("a", tuple(episode(seed, *r) for r in ((1.0, 10.0), (2.0,), (3.0, 30.0), (4.0, 40.0))))
        [table] = learner.returns(group)
        orders.add(tuple(map(tuple, table.tolist())))
    assert len(orders) > 5
    assert all(sorted(order) == [(2.0, 0.0), (11.0, 10.0), (33.0, 30.0), (44.0, 40.0)] for order in orders)


def test_returns_of_a_decision_change_places_among_its_branches() -> None:
    learner = Shuffled(softmax_team(), ONE_WORD, MAGRPOConfig(pairing="cross"))
    branches = tuple(Branch((i, j), (float(2 * i + j), 7.0)) for i in range(2) for j in range(2))
    texts = (said("x"), said("y"))
    decision = Decision(0, {"agent_0": texts, "agent_1": texts}, 2, branches)
    orders = [learner.returns(Group("a", (episode(seed, 0.0),), (decision,)))[0].tolist() for seed in range(20)]
    assert len(set(map(tuple, orders))) > 5
    assert all(sorted(order) == [7.0, 8.0, 9.0, 10.0] for order in orders)


def test_the_order_follows_from_the_seed_of_the_episodes() -> None:
    learner = find_algorithm("shuffled").load()(Team({"agent_0": Softmax()}), ONE_WORD)
    assert isinstance(learner, Shuffled)

    def credits(seed: int) -> list[float]:
        return [s.advantage for s in learner.samples([Group("a", tuple(episode(seed, float(i)) for i in range(8)))])]

    assert credits(1) == credits(1)
    assert credits(1) != credits(2)
    assert np.isclose(sorted(credits(1)), sorted(credits(2))).all()
