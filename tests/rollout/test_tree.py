"""Trees of joint actions: what is played, with how many texts, and what it earns."""

from __future__ import annotations

import math

import pytest
from models import AGENTS, Recorder
from worth import Colours, Echo, numbers, play

from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Rollout, Tree
from llm_dec_pomdp.rollout.tree import _mean_rewards


@pytest.mark.parametrize(
    ("rollout", "size", "turns", "growth"),
    [(Tree(), 2, 1, 2), (Tree(), 2, 3, 2), (Tree(), 3, 2, 3), (Tree("cross"), 2, 2, 4)],
)
def test_a_tree_branches_at_every_joint_action(rollout: Rollout, size: int, turns: int, growth: int) -> None:
    [group] = play(numbers(max_turns=turns), rollout, size)
    assert len(group.episodes) == growth**turns
    assert {len(e.turns) for e in group.episodes} == {turns}
    for t in range(turns):
        shares = [d.share for d in group.decisions if d.turn == t]
        assert len(shares) == growth**t
        assert sum(shares) == pytest.approx(1.0)


def test_the_rewards_of_a_branch_are_the_means_of_its_leaves() -> None:
    [group] = play(numbers(Echo, max_turns=3), Tree(), 2)
    root = group.decisions[0]
    for g, branch in enumerate(root.branches):
        leaves = group.episodes[g * 4 : (g + 1) * 4]
        assert {e.turns[0] for e in leaves if e.turns[0].reward != branch.rewards[0]} == set()
        for t in range(3):
            assert branch.rewards[t] == pytest.approx(sum(e.rewards[t] for e in leaves) / 4)


def test_who_ended_earns_no_more_and_what_has_no_score_is_left_out() -> None:
    assert _mean_rewards([(1.0, 4.0), (3.0,)]) == [2.0, 2.0]
    assert _mean_rewards([(1.0, 4.0), (math.nan, 2.0)]) == [1.0, 3.0]
    assert _mean_rewards([(1.0, 4.0), (math.nan,)]) == [1.0, 4.0]
    assert _mean_rewards([]) == []
    [only] = _mean_rewards([(math.nan,)])
    assert math.isnan(only)


def test_agents_that_cannot_tell_two_decision_points_apart_say_the_same() -> None:
    """Four joint actions lead on, but each agent knows of its own two texts only."""
    recorder = Recorder(Colours())
    [group] = play(numbers(max_turns=2), Tree("cross"), 2, ids=["t2"], policy=recorder)
    first, second = recorder.calls
    assert sum(d.turn == 1 for d in group.decisions) == 4
    assert [len(r.seeds) for r in second] == [2] * len(second)
    counts = [len({c.text for c in group.decisions[0].actions[agent]}) for agent in AGENTS]
    assert len(second) == sum(counts) <= 4
    assert len(first) == 2


def test_a_tree_that_would_be_too_large_is_named() -> None:
    with pytest.raises(ValueError, match=r"task 't1'.* 4096"):
        play(numbers(max_turns=2), Tree(), 65)


@pytest.mark.parametrize("protocol", ["sequential", "discussion"])
def test_a_tree_grows_under_every_protocol(protocol: str) -> None:
    [group] = play(with_protocol(numbers(), protocol), Tree(), 2)
    assert len(group.episodes) == 4
    assert all(e.turns[-1].score is not None for e in group.episodes)
