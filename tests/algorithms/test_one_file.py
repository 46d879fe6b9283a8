"""examples/magrpo_in_one_file.py computes the same update as MAGRPO with its default options."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, match, network, tokenizer

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.types import Completion, Episode, Group, Turn

EXAMPLES = Path(__file__).parents[2] / "examples"
# By task, episode and turn. One episode ends early. The second group has no signal, and counts in the token mean.
REWARDS = {"t0": [[1.0, -2.0, 0.5], [0.0, 3.0], [2.5, 0.25, 1.0]], "t1": [[1.0, 0.0], [1.0], [1.0, 0.0, 0.0]]}


def recorded(group: list[Any]) -> Group:
    """Return a group of the example as the package stores it: the same token ids, log-probabilities and rewards."""
    episodes: list[Episode] = []
    for episode in group:
        turns: list[Turn] = []
        for texts, reward in zip(episode.turns, episode.rewards, strict=True):
            actions = {a: Completion("", c.prompt, tuple(c.ids), tuple(c.logprobs)) for a, c in texts.items()}
            turns.append(Turn(dict.fromkeys(actions, ""), actions, reward))
        episodes.append(Episode("t", 0, tuple(turns), terminated=True))
    return Group("t", tuple(episodes))


@pytest.mark.parametrize("options", [{}, {"epochs": 3, "learning_rate": 0.02}], ids=["default", "clipped"])
def test_updates_of_the_one_file_equal_those_of_magrpo(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """In double precision: the first step of AdamW divides a gradient by its size, which magnifies rounding."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    one_file = importlib.import_module("magrpo_in_one_file")
    for name, value in {"max_new_tokens": 6, **options}.items():
        monkeypatch.setattr(one_file, name.upper(), value)
    torch.manual_seed(0)
    env, words = match(max_turns=3), tokenizer()
    models = {agent: network(seed, double=True) for seed, agent in enumerate(AGENTS)}
    optimizers = {
        agent: torch.optim.AdamW(model.parameters(), one_file.LEARNING_RATE, weight_decay=0)
        for agent, model in models.items()
    }
    team = Team({agent: LanguageModel(copy.deepcopy(model), words) for agent, model in models.items()})
    learner = MAGRPO(team, Sampling(), MAGRPOConfig(**options))

    for _ in range(2):  # the second update depends on the state of the optimizers too
        groups = one_file.play(env, models, words, list(REWARDS), 3)
        for group, of_group in zip(groups, REWARDS.values(), strict=True):
            for episode, rewards in zip(group, of_group, strict=True):
                episode.rewards, episode.turns = rewards, episode.turns[: len(rewards)]
        assert len({len(c.ids) for group in groups for e in group for turn in e.turns for c in turn.values()}) > 2
        before = [parameter.clone() for model in models.values() for parameter in model.parameters()]
        metrics = learner.update([recorded(group) for group in groups])
        losses, norms = zip(*one_file.train_step(models, optimizers, groups).values(), strict=True)

        assert sum(losses) / 2 == pytest.approx(metrics["loss"], rel=1e-5)
        assert sum(norms) / 2 == pytest.approx(metrics["grad_norm"], rel=1e-5)
        assert (metrics["clipped"] > 0) is bool(options)
        assert metrics["sampler_gap_max"] < 1e-5  # log-probabilities that the example recorded
        found = [parameter for model in models.values() for parameter in model.parameters()]
        wanted = [parameter for agent in AGENTS for parameter in team.members[agent].parameters()]
        for ours, theirs, start in zip(found, wanted, before, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
            assert (ours - start).abs().max() > 1e-4
