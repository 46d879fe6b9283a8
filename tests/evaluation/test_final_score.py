"""Under every rule of pay, training, evaluation, records and reports show one number: the score delivered last."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from models import AGENTS, ITEMS, Match, Recorder

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.base import Algorithm
from llm_dec_pomdp.envs.turn_rewards import RULES
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.episodes import Header, from_episode, to_episode
from llm_dec_pomdp.evaluation.metrics import summarise
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.training import loop as training
from llm_dec_pomdp.training.tracking import train_numbers
from llm_dec_pomdp.types import Group, Score, TaskItem

SAMPLING = Sampling(max_new_tokens=1)


class Given(Match):
    """Turn t scores the t-th of the given values, out of 4."""

    declared = replace(Match.declared, score_range=(0.0, 4.0))
    given: Sequence[float]

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        value = self.given[self.turn]
        return Score(value, {"match": value})


def given(turn_reward: Any, *scores: float) -> Given:
    env = Given(ITEMS, max_turns=2, turn_reward=turn_reward)
    env.given = scores
    return env


def play(turn_reward: Any, *scores: float) -> tuple[Any, Group]:
    env = given(turn_reward, *scores)
    [group] = Trajectories().play(env, Team(dict.fromkeys(AGENTS, Recorder())), ["t1"], [0], SAMPLING)
    return env, group


def recorded_score(env: Any, group: Group) -> float:
    """The score of what was delivered last, from the record of an episode."""
    [item] = [item for item in env.items if item.id == group.item_id]
    trace = json.loads(json.dumps(from_episode(group.episodes[0], Header.of(env), item), allow_nan=False))
    final = to_episode(trace).final
    assert final is not None
    return final.total


class Still(Algorithm):
    """Learns nothing."""

    def update(self, groups: Sequence[Group]) -> dict[str, float]:
        return {}


CASES = [((1.0, 3.0), 75.0), ((4.0,), 100.0), ((3.0, 1.0), 25.0)]


@pytest.mark.parametrize("turn_reward", RULES)
@pytest.mark.parametrize(("scores", "percent"), CASES)
def test_training_evaluation_and_records_agree(turn_reward: str, scores: tuple[float, ...], percent: float) -> None:
    env, group = play(turn_reward, *scores)
    assert training.mean_scores([group], env)[1:] == (percent, {"match": percent / 25})
    measured = summarise([group], env.facts.score_scale, env.facts.components, 1.0)
    assert (measured.return_percent.mean, measured.components["match"].mean) == (percent, percent / 25)
    assert recorded_score(env, group) == percent / 25


def test_a_training_step_reports_rewards_and_the_percentage() -> None:
    env = given("shifted", 1.0, 3.0)
    steps: list[training.TrainingStep] = []
    learner = Still(Team(dict.fromkeys(AGENTS, Recorder())), SAMPLING)
    training.train(learner, env, SAMPLING, training.TrainerConfig(steps=1), 0, steps.append)
    tracked = train_numbers(steps[0])
    assert (tracked["train/return"], tracked["train/return_percent"]) == (-4.0, 75.0)


def test_drafts_are_not_what_was_delivered() -> None:
    env = with_protocol(Match(ITEMS), "discussion")
    [group] = Trajectories().play(env, Team(dict.fromkeys(AGENTS, Recorder())), ["t1"], [0], SAMPLING)
    assert recorded_score(env, group) == 1.0


@pytest.mark.parametrize(("scores", "wanted"), [((math.nan, 3.0), 3.0), ((3.0, math.nan), math.nan)])
def test_the_last_score_counts_when_it_is_known(scores: tuple[float, ...], wanted: float) -> None:
    env, group = play("final", *scores)
    assert recorded_score(env, group) == pytest.approx(wanted, nan_ok=True)
    measured = summarise([group], env.facts.score_scale, env.facts.components, 1.0)
    assert measured.return_percent.mean == pytest.approx(25 * wanted, nan_ok=True)
    assert measured.unscored == int(math.isnan(wanted))
