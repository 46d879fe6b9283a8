"""Two agents who never hear each other are paid when both say the same one of four words."""

from __future__ import annotations

import numpy as np
import pytest
from models import AGENTS, COLOURS, match, network, softmax_team, tokenizer
from updates import agreement

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.controls import shuffled_reward_control
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.training import TrainerConfig, train


def trained(team: Team, kind: type[MAGRPO], sampling: Sampling, learning_rate: float) -> Team:
    learner = kind(team, sampling, MAGRPOConfig(learning_rate=learning_rate))
    train(learner, match(), sampling, TrainerConfig(steps=40, prompts_per_step=4, group_size=8), 0)
    return team


def tables(kind: type[MAGRPO]) -> float:
    return agreement(trained(softmax_team(), kind, Sampling(max_new_tokens=1), learning_rate=0.15))


def test_two_tables_agree_on_a_word() -> None:
    assert tables(MAGRPO) > 0.9


def test_shuffled_rewards_teach_two_tables_nothing() -> None:
    assert tables(shuffled_reward_control(MAGRPO)) < 0.6


def mean_reward(team: Team, sampling: Sampling) -> float:
    env = match()
    groups = Trajectories().play(env, team, [item.id for item in env.items], range(len(env.items)), sampling, width=20)
    return float(np.mean([e.total for g in groups for e in g.episodes]))


@pytest.mark.slow
def test_two_language_models_agree_on_a_word() -> None:
    """Two small transformers of their own that know the four words and little else."""
    sampling = Sampling(max_new_tokens=1)
    policies = [
        LanguageModel(network(i, vocab_size=5 + len(COLOURS), spread=0.1), tokenizer(words=COLOURS)) for i in range(2)
    ]
    team = Team(dict(zip(AGENTS, policies, strict=True)))
    assert mean_reward(trained(team, MAGRPO, sampling, learning_rate=0.01), sampling) > 0.9
