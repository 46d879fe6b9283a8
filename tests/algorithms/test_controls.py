"""The control keeps everything but the link between a text and what it earned."""

from __future__ import annotations

import numpy as np
from models import episode, said, softmax_team

from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.algorithms.controls import Shuffled, shuffled
from llm_dec_pomdp.algorithms.registration import find_algorithm
from llm_dec_pomdp.types import Branch, Completion, Decision, Episode, Group


def played(number: int, *rewards: float) -> Episode:
    """An episode of agent_0 whose texts tell its number and the turn."""
    return episode(rewards, [{"agent_0": Completion(f"{number}.{t}", (0,), (1,))} for t in range(len(rewards))])


def test_rewards_change_places_turn_by_turn_and_texts_stay() -> None:
    group = Group("a", (played(0, 1.0, 10.0), played(1, 2.0), played(2, 3.0, 30.0), played(3, 4.0, 40.0)))
    seen: set[tuple[float, ...]] = set()
    for seed in range(20):
        found = shuffled(group, np.random.default_rng(seed))
        assert [[t.actions["agent_0"].text for t in e.turns] for e in found.episodes] == [
            ["0.0", "0.1"],
            ["1.0"],
            ["2.0", "2.1"],
            ["3.0", "3.1"],
        ]
        assert sorted(e.rewards[0] for e in found.episodes) == [1.0, 2.0, 3.0, 4.0]
        assert sorted(e.rewards[1] for e in found.episodes if len(e.turns) > 1) == [10.0, 30.0, 40.0]
        seen.add(tuple(e.rewards[0] for e in found.episodes))
    assert len(seen) > 5


def test_rewards_of_a_decision_change_places_among_its_branches() -> None:
    branches = tuple(Branch((i, j), (float(2 * i + j), 7.0)) for i in range(2) for j in range(2))
    texts = (said(0), said(1))
    group = Group("a", (), (Decision(0, {"agent_0": texts, "agent_1": texts}, 2, branches),))
    orders = [
        tuple(b.rewards for b in shuffled(group, np.random.default_rng(seed)).decisions[0].branches)
        for seed in range(20)
    ]
    assert len(set(orders)) > 5
    assert all(sorted(order) == [(0.0, 7.0), (1.0, 7.0), (2.0, 7.0), (3.0, 7.0)] for order in orders)


def test_every_update_shuffles_differently_and_the_same_update_alike() -> None:
    learner = find_algorithm("shuffled").load()(softmax_team(), Sampling(max_new_tokens=1))
    assert isinstance(learner, Shuffled)
    group = Group("a", tuple(played(i, float(i)) for i in range(8)))

    def credits(update: int) -> list[float]:
        learner.updates = update
        return [s.advantage for s in learner.samples([group])]

    assert credits(1) == credits(1)
    assert credits(1) != credits(2)
    assert sorted(credits(1)) == sorted(credits(2))
