"""Crossed texts: what is played, with how many texts, and what it earns."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest
from models import AGENTS, ITEMS, Recorder
from worth import Colours, Numbers, numbers, play, texts_of, value

from llm_dec_pomdp.rollout import Crossed
from llm_dec_pomdp.types import Score, TaskItem


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_combinations_are_scored_at_their_worth_and_nothing_more_is_generated(size: int) -> None:
    recorder, env = Recorder(Colours()), numbers()
    [group] = play(env, Crossed(), size, policy=recorder)
    assert [[(r.agent, len(r.seeds)) for r in call] for call in recorder.calls] == [[(a, size) for a in AGENTS]]
    [decision] = group.decisions
    assert [b.choice for b in decision.branches] == list(itertools.product(range(size), repeat=2))
    worth = [(value(env, texts_of(decision, b.choice)),) for b in decision.branches]
    assert [b.rewards for b in decision.branches] == [e.rewards for e in group.episodes] == worth


def test_crossing_needs_a_tree_where_there_is_a_second_turn() -> None:
    with pytest.raises(ValueError, match=r"match-v0.* has max_turns 2"):
        play(numbers(max_turns=2), Crossed())


class Waiting(Numbers):
    """Judges that come to an end only when several run at once."""

    declared = replace(Numbers.declared, judges_code=True)
    together = threading.Barrier(9)

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        self.together.wait(timeout=20)
        return Score(0.0, {"match": 0.0})


def test_rewards_are_judged_concurrently() -> None:
    [group] = play(Waiting(ITEMS), Crossed())
    assert len(group.decisions[0].branches) == 9
