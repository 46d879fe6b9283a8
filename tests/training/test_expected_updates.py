"""A falling learning rate falls over the updates of the run, which nobody has to type."""

from __future__ import annotations

from typing import Any

import pytest
from models import match, same, softmax_team, weights
from typer.testing import CliRunner

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.algorithms.staged import Stage, Staged
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.training import TrainerConfig, train

SAMPLING = Sampling(max_new_tokens=1)


def learner(team: Team, **options: Any) -> MAGRPO:
    return MAGRPO(team, SAMPLING, MAGRPO.Config(learning_rate=0.1, schedule="linear", **options))


def trained(steps: int, **options: Any) -> Team:
    team = softmax_team()
    train(learner(team, **options), match(), SAMPLING, TrainerConfig(steps=steps, prompts_per_step=4), 0)
    return team


def test_it_is_as_if_the_number_had_been_typed() -> None:
    assert same(weights(trained(5)), weights(trained(5, horizon=5)))
    assert not same(weights(trained(5)), weights(trained(5, horizon=9)))


def test_stages_fall_over_their_own_updates() -> None:
    team = softmax_team()
    first, second = learner(team), learner(team, horizon=7)
    Staged([Stage(first, 3), Stage(second, 0)]).expect(10)
    assert [learner.updaters[0].horizon for learner in (first, second)] == [3, 7]


def test_without_a_run_it_has_to_be_said() -> None:
    team = softmax_team()
    algorithm = learner(team)
    groups = algorithm.rollout.play(match(), team, ["t0"], [0], SAMPLING, 4)
    with pytest.raises(ValueError, match="the number of updates is not known"):
        algorithm.update(groups)


def test_a_rise_over_the_whole_run_is_refused_before_anything_is_loaded() -> None:
    setting = ["--set", "schedule=linear", "--set", "warmup=4", "--steps", "4"]
    refused = CliRunner().invoke(app, ["train", "tldr-v0", *setting])
    assert refused.exit_code == 2
    assert "warmup" in refused.output
    with pytest.raises(ValueError, match="warmup"):
        trained(4, warmup=4)
