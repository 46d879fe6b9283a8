from __future__ import annotations

import dataclasses
import math
import pickle

import pytest

from llm_dec_pomdp.types import Completion, Episode, Group, Score, TaskItem, Turn


def turn(reward: float, score: Score | None = None, **seconds: float) -> Turn:
    actions = {agent: Completion("text", seconds=value) for agent, value in seconds.items()}
    return Turn(observations=dict.fromkeys(actions, "observation"), actions=actions, reward=reward, score=score)


def episode(*turns: Turn) -> Episode:
    return Episode("task", seed=0, turns=turns, terminated=False)


NOUNS = [
    TaskItem("a", "prompt"),
    Score(1.0, {"x": 1.0}),
    Completion("text"),
    turn(1.0),
    episode(),
    Group("a", ()),
]


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: type(noun).__name__)
def test_nouns_are_frozen_have_slots_and_survive_pickling(noun: object) -> None:
    name = dataclasses.fields(noun)[0].name  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(noun, name, "other")
    assert not hasattr(noun, "__dict__")
    assert pickle.loads(pickle.dumps(noun)) == noun


def test_a_score_is_scorable_unless_it_is_nan() -> None:
    assert Score(0.0, {}).scorable
    assert not Score(math.nan, {}).scorable


def test_an_episode_has_rewards_in_order_and_their_sum() -> None:
    assert episode(turn(1.0), turn(0.5)).rewards == (1.0, 0.5)
    assert episode(turn(1.0), turn(0.5)).total == 1.5
    assert math.isnan(episode(turn(1.0), turn(math.nan)).total)
    assert episode().total == 0


def test_final_is_the_score_of_the_last_scored_turn() -> None:
    first, last = Score(2.0, {}), Score(1.0, {})
    assert episode(turn(2.0, first), turn(1.0, last), turn(0.0)).final is last
    assert episode(turn(0.0)).final is None


def test_response_time_is_max_within_and_sum_over_turns() -> None:
    assert episode(turn(0, agent_0=1.0, agent_1=3.0), turn(0, agent_0=2.0, agent_1=0.5)).response_seconds == 5.0
    assert episode(turn(0)).response_seconds == 0.0
