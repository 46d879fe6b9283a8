"""A stage's learner begins when its stage does: its reference and its critic's body are the team at that time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, ITEMS, WORDS, Colourful, same, save_model, separate_team, softmax_team, weights

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.io.save import load_weights, save_team
from llm_dec_pomdp.algorithms.actor_critic import IAC
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.algorithms.staged import Stage, Staged

SAMPLING = Sampling(max_new_tokens=3)


def staged(team: Team, name: str, **options: Any) -> Staged:
    """Three updates that move a team far, and then another learner."""
    first = build_algorithm("mareinforce", {"learning_rate": 0.1}, team, SAMPLING)
    return Staged([Stage(first, 3), Stage(build_algorithm(name, {"learning_rate": 0.3, **options}, team, SAMPLING), 0)])


def updates(learner: Any, count: int) -> list[Mapping[str, float]]:
    env = Colourful(ITEMS)
    played = (learner.rollout.play(env, learner.policy, ["t0"], [step], SAMPLING, 8) for step in range(count))
    return [learner.update(groups) for groups in played]


def adapters(folder: str) -> Team:
    return load_team(AGENTS, folder, sharing="lora", device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"), seed=3)


@pytest.mark.parametrize("kind", ["tables", *(pytest.param(k, marks=pytest.mark.slow) for k in ("models", "adapters"))])
def test_preferences_and_divergences_are_from_the_team_at_the_start_of_the_stage(kind: str, folder: str) -> None:
    for name, options in (("madpo", {}), ("magrpo", {"beta": 0.1})):
        team = {
            "tables": lambda: softmax_team(words=WORDS),
            "models": separate_team,
            "adapters": lambda: adapters(folder),
        }[kind]()
        start = weights(team)
        metrics = updates(staged(team, name, **options), 5)
        assert not same(weights(team), start)
        first, later = metrics[3:]
        if name == "madpo":
            assert first["preference_loss"] == pytest.approx(math.log(2), abs=1e-6)
            assert first["gap"] == pytest.approx(0.0, abs=1e-5)
        else:
            assert first["kl"] == pytest.approx(0.0, abs=1e-6)
            assert later["kl"] > first["kl"] + 1e-6


@pytest.mark.parametrize("kind", ["models", "adapters"])
def test_a_critic_of_its_own_has_the_body_of_the_policy_at_the_start_of_the_stage(kind: str, folder: str) -> None:
    team = separate_team() if kind == "models" else adapters(folder)
    learner = staged(team, "iac", body="own")
    second = learner.stages[1].learner
    assert isinstance(second, IAC)
    updates(learner, 3)
    for updater in second.updaters:
        updater.critic.weight.data.fill_(0.1)  # type: ignore[attr-defined]
        reading = (min(updater.agents), (5, 6, 7, 8))
        value = updater.critic.values([reading]).item()  # type: ignore[attr-defined]
        shared = updater.policy.critic([tuple(updater.agents)], separate=False)  # type: ignore[union-attr]
        shared.weight.data.fill_(0.1)
        assert value == pytest.approx(shared.values([reading]).item(), abs=1e-5)
    assert updates(learner, 1)[0]["value_loss"] > 0


def test_adapters_of_a_saved_team_are_their_own_reference(folder: str, tmp_path: Path) -> None:
    trained = adapters(folder)
    with torch.no_grad():
        for parameter in trained.trainable[0].parameters():
            parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(1))
    save_team(trained, tmp_path / "team", {})
    team = adapters(folder)
    load_weights(tmp_path / "team", team)
    [first, second] = updates(build_algorithm("madpo", {"learning_rate": 0.05}, team, SAMPLING), 2)
    assert first["preference_loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert second["gap"] != pytest.approx(0.0, abs=1e-5)
