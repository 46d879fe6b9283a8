"""A learnt reward: values by hand, the gradient of Bradley and Terry, held-out tasks, and what it pays later."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from models import AGENTS, COLOURS, ITEMS, WORDS, Softmax, gradients, language_model, match, same, sampled, weights

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.base import Request
from llm_dec_pomdp.agents.judges import ModelJudge, ended, value, values
from llm_dec_pomdp.algorithms.reward_model import RewardModel, RewardModelConfig
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Group, conversation

SAMPLING = Sampling(max_new_tokens=6)


def recorded(folder: Path) -> str:
    """Pairs of every task: of two colours the first words are preferred to other words."""
    path = folder / "pairs.jsonl"
    rows = [
        {
            "task": item.id,
            "chosen": dict(zip(AGENTS, (COLOURS[k % 4], COLOURS[(k + 1) % 4]), strict=True)),
            "rejected": dict(zip(AGENTS, (WORDS[4 + (k + n) % 12], WORDS[4 + (2 * k + n) % 12]), strict=True)),
        }
        for n, item in enumerate(ITEMS)
        for k in range(6)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def learner(folder: Path, **options: Any) -> RewardModel:
    given: dict[str, Any] = {"source": recorded(folder), "max_grad_norm": 1e9, **options}
    return RewardModel(Team({"agent_0": language_model()}), SAMPLING, RewardModelConfig(**given))


def play(algorithm: RewardModel, *ids: str, seed: int = 0, width: int = 2) -> list[Group]:
    env = with_protocol(match(), "centralized")
    return algorithm.rollout.play(env, algorithm.policy, ids, range(seed, seed + len(ids)), SAMPLING, width)


# --- values -----------------------------------------------------------------------------------------------------------


def test_a_value_is_the_log_odds_of_the_end() -> None:
    policy = Softmax(words=["a", "b", "end"], logits=[0.0, math.log(3.0), math.log(16.0)])  # p = 0.05, 0.15, 0.8
    samples = [("agent_0", sampled(0, 1, 2)), ("agent_0", sampled(1))]
    assert values(policy, samples).tolist() == pytest.approx([math.log(4.0), math.log(0.15 / 0.85)], abs=1e-6)


def test_a_value_stays_finite_where_the_end_is_certain() -> None:
    policy = Softmax(words=["a", "end"], logits=[-200.0, 200.0])
    found = values(policy, [("agent_0", sampled(1)), ("agent_0", sampled(0))])
    assert found.isfinite().all()
    assert found[0] > 13
    assert found[1] < -300


def test_a_text_that_was_cut_is_judged_as_if_it_had_ended_there() -> None:
    assert ended(sampled(5, 6, 2), 2).token_ids == (5, 6, 2)
    assert ended(sampled(5, 6, 7), 2).token_ids == (5, 6, 2)


def test_a_judge_says_what_the_learner_learns(tmp_path: Path) -> None:
    algorithm = learner(tmp_path)
    [group] = play(algorithm, "t0")
    episode = group.episodes[0]
    completion = episode.turns[0].actions["agent_0"]
    judge = ModelJudge(algorithm.team.members["agent_0"], limit=12)
    history = conversation(episode.turns[0].observations["agent_0"])
    [text, other] = [pair for pair in algorithm.pairs([group]) for pair in pair]
    gap = algorithm.gaps([[text, other]])[0]
    found, its = judge.log_likelihoods([history, history], [completion.text, other.completion.text])
    assert gap == pytest.approx(value(found) - value(its), rel=1e-4)
    with pytest.raises(TypeError, match="Softmax"):
        ModelJudge(Softmax())


# --- learning ---------------------------------------------------------------------------------------------------------


def test_loss_and_gradient_are_those_of_bradley_and_terry(tmp_path: Path) -> None:
    algorithm = learner(tmp_path, held_out=0.0, learning_rate=0.0)
    groups = play(algorithm, "t0", "t1", "t2", width=4)
    metrics = algorithm.update(groups)
    policy: Any = algorithm.team.members["agent_0"]
    gradient = gradients(algorithm.team)[0].clone()
    policy.model.zero_grad()
    pairs = [group.episodes[k : k + 2] for group in groups for k in (0, 2)]
    sides = [[("agent_0", e.turns[0].actions["agent_0"]) for e in side] for side in zip(*pairs, strict=True)]
    better, worse = (values(policy, side) for side in sides)
    loss = -torch.nn.functional.logsigmoid(better - worse).mean()
    loss.backward()
    assert metrics["pairs"] == 6
    assert metrics["preference_loss"] == pytest.approx(loss.item(), abs=1e-5)
    torch.testing.assert_close(gradient, gradients(algorithm.team)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_it_tells_apart_pairs_of_tasks_that_it_never_learnt_from(tmp_path: Path) -> None:
    algorithm = learner(tmp_path, held_out=0.4, learning_rate=3e-3, max_grad_norm=1.0)
    ids = [item.id for item in ITEMS]
    unseen = [algorithm.held_out(item_id) for item_id in ids]
    assert 0 < sum(unseen) < len(ids)
    first = algorithm.update(play(algorithm, *ids, width=4))["preference_loss"]
    results = [algorithm.update(play(algorithm, *ids, seed=10 * k, width=4)) for k in range(1, 25)]
    assert sum(r["preference_loss"] for r in results[-5:]) / 5 < 0.5 * first
    assert sum(r["preferred_held_out"] for r in results[-5:]) / 5 > 0.9


def test_held_out_tasks_move_nothing(tmp_path: Path) -> None:
    algorithm = learner(tmp_path, held_out=0.4)
    before = weights(algorithm.team)
    metrics = algorithm.update(play(algorithm, *(item.id for item in ITEMS if algorithm.held_out(item.id))))
    assert metrics["pairs"] == 0
    assert 0 <= metrics["preferred_held_out"] <= 1
    assert same(before, weights(algorithm.team))


# --- who speaks -------------------------------------------------------------------------------------------------------


def test_the_first_weights_speak_and_the_best_of_several_texts_is_said(tmp_path: Path) -> None:
    algorithm = learner(tmp_path, best_of=5, learning_rate=0.05)
    algorithm.update(play(algorithm, "t0", "t1", "t2"))
    judge = ModelJudge(algorithm.team.members["agent_0"], limit=SAMPLING.max_new_tokens)
    for word in COLOURS:
        [texts] = algorithm.policy.generate([Request("agent_0", conversation(f"say {word}"), (7, 8))], SAMPLING)
        for seed, text in zip((7, 8), texts, strict=True):
            seeds = tuple(derive(seed, "of several", k) for k in range(5))
            [drawn] = language_model().generate([Request("agent_0", conversation(f"say {word}"), seeds)], SAMPLING)
            history, texts_drawn = conversation(f"say {word}"), [other.text for other in drawn]
            worth = list(map(value, judge.log_likelihoods([history] * len(drawn), texts_drawn)))
            assert text.token_ids == drawn[worth.index(max(worth))].token_ids


def test_a_source_of_held_out_tasks_alone_is_refused(tmp_path: Path) -> None:
    row = {"task": "only", "chosen": {"agent_0": "red"}, "rejected": {"agent_0": "left"}}
    (tmp_path / "one.jsonl").write_text(json.dumps(row), encoding="utf-8")
    config = RewardModelConfig(source=str(tmp_path / "one.jsonl"), held_out=0.999)
    with pytest.raises(ValueError, match="all 1 tasks"):
        RewardModel(Team({"agent_0": language_model()}), SAMPLING, config)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "source is missing"),
        ({"source": "x", "beta": 0.5}, "beta"),
        ({"source": "x", "held_out": 1.0}, "held_out"),
        ({"source": "x", "best_of": 0}, "best_of"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(RewardModelConfig, options, source="options")


def test_weights_that_live_elsewhere_are_refused(tmp_path: Path) -> None:
    class Away(Softmax):
        def updater(self, *arguments: Any) -> Any:
            return SimpleNamespace(agents={"agent_0"})

    with pytest.raises(ValueError, match="in the process of its run"):
        RewardModel(Team({"agent_0": Away()}), SAMPLING, RewardModelConfig(source=recorded(tmp_path)))


def test_who_cannot_be_shown_a_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a Softmax"):
        RewardModel(Team({"agent_0": Softmax()}), SAMPLING, RewardModelConfig(source=recorded(tmp_path)))
