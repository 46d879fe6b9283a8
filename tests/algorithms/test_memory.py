"""Running out of memory halves the micro-batch and leaves the gradient as it is."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from models import AGENTS, Softmax, match, same, separate_team, softmax_team, weights

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.oom import BatchSize, OutOfDeviceMemoryError
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Group

SAMPLING = Sampling(max_new_tokens=4)


@pytest.fixture(autouse=True, scope="module")
def _quick_collection() -> Iterator[None]:
    """Every halving collects garbage; what earlier tests left behind need not be looked at each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Small(LanguageModel):
    """A model on a device that holds `room` sequences."""

    room = 2
    sizes: list[int]

    def token_logprobs(self, samples: Sequence[Any], temperature: float) -> Any:
        self.sizes.append(len(samples))
        if len(samples) > self.room:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory (simulated)")
        return super().token_logprobs(samples, temperature)


def on_small_device(team: Team, room: int) -> Team:
    for policy in team.trainable:
        policy.__class__ = Small
        policy.room, policy.sizes = room, []  # type: ignore[attr-defined]
    return team


def played(team: Team) -> list[Group]:
    """Groups in which every other episode earned something."""
    groups = Trajectories().play(match(), team, ["t0", "t1"], [1, 2], SAMPLING, width=5)
    for group in groups:
        for number, episode in enumerate(group.episodes):
            (turn,) = episode.turns
            object.__setattr__(turn, "reward", float(number % 2))
    return groups


def updated(team: Team, **options: Any) -> tuple[MAGRPO, list[dict[str, torch.Tensor]], dict[str, float]]:
    learner = MAGRPO(team, SAMPLING, MAGRPOConfig(learning_rate=0.01, **options))
    metrics = learner.update(played(separate_team(seed=3)))
    return learner, weights(team), metrics


@pytest.mark.parametrize(
    "options",
    [
        {"beta": 0.1, "epochs": 2},
        *(pytest.param(other, marks=pytest.mark.slow) for other in ({}, {"epochs": 3}, {"minibatches": 2})),
    ],
    ids=str,
)
def test_an_update_on_a_small_device_is_that_of_a_smaller_micro_batch(options: dict[str, Any]) -> None:
    learner, found, metrics = updated(on_small_device(separate_team(seed=3), 2), micro_batch=8, **options)
    _, wanted, wanted_metrics = updated(separate_team(seed=3), micro_batch=2, **options)
    assert [updater.micro_batch.size for updater in learner.updaters] == [2, 2]
    assert same(found, wanted)
    assert metrics == wanted_metrics
    assert not same(found, weights(separate_team(seed=3)))


def test_the_smaller_size_is_remembered_and_survives_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    team = on_small_device(separate_team(seed=3), 2)
    with caplog.at_level(logging.WARNING):
        learner, _, _ = updated(team, micro_batch=8)
    messages = [r.getMessage().split("; ")[1].split(" (")[0] for r in caplog.records]
    assert messages == ["micro_batch is 4 from now on", "micro_batch is 2 from now on"] * 2
    for policy in team.trainable:
        policy.sizes.clear()  # type: ignore[attr-defined]
    learner.update(played(separate_team(seed=4)))
    assert {size for policy in team.trainable for size in policy.sizes} <= {1, 2}  # type: ignore[attr-defined]
    again = MAGRPO(separate_team(seed=3), SAMPLING, MAGRPOConfig(micro_batch=8))
    again.load_state_dict(learner.state_dict())
    assert [updater.micro_batch.size for updater in again.updaters] == [2, 2]


def test_a_device_that_holds_nothing_is_given_up_and_leaves_the_weights() -> None:
    team = on_small_device(separate_team(seed=3), 0)
    with pytest.raises(OutOfDeviceMemoryError, match="CUDA out of memory"):
        updated(team, micro_batch=8)
    assert same(weights(team), weights(separate_team(seed=3)))


@pytest.mark.parametrize(("size", "sizes"), [(8, [8, 4, 2, 1]), (7, [7, 4, 2, 1]), (1, [1])])
def test_the_size_is_halved_down_to_one(size: int, sizes: list[int]) -> None:
    tried: list[int] = []
    undone: list[int] = []

    def work(size: int) -> None:
        tried.append(size)
        raise torch.cuda.OutOfMemoryError("full")

    with pytest.raises(OutOfDeviceMemoryError):
        BatchSize("rows", size).run(work, lambda: undone.append(1))
    assert tried == sizes
    assert len(undone) == len(sizes)


def test_other_errors_pass() -> None:
    def work(size: int) -> None:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        BatchSize("rows", 4).run(work)


# --- ratios -----------------------------------------------------------------------------------------------------------


class Leaping(Softmax):
    """After its first step a text has become endlessly more likely."""

    passes = 0

    def token_logprobs(self, samples: Any, temperature: float) -> Any:
        logprobs, mask = super().token_logprobs(samples, temperature)
        self.passes += 1
        return logprobs + (200.0 if self.passes > 1 else 0.0), mask


def test_a_ratio_that_is_not_finite_skips_the_step() -> None:
    """The clip hides the ratio e^200 from the loss of a text that earned more than others; the guard sees it."""
    team = Team({agent: Leaping() for agent in AGENTS})
    groups = Trajectories().play(match(), softmax_team(), ["t0"], [1], SAMPLING, width=6)
    for number, episode in enumerate(groups[0].episodes):
        object.__setattr__(episode.turns[0], "reward", float(number % 2))
    once = softmax_team()
    MAGRPO(once, SAMPLING, MAGRPOConfig(epochs=1)).update(groups)
    metrics = MAGRPO(team, SAMPLING, MAGRPOConfig(epochs=2)).update(groups)
    assert metrics["clipped"] != metrics["clipped"]
    assert same(weights(team), weights(once))
