"""The updater alone: one policy learns from advantages that are given by hand, and goes on where it was saved."""

from __future__ import annotations

import copy
import math
import runpy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from models import Softmax, gradients, group, language_model, same, sampled, softmax_team, weights
from updates import SAMPLING, THREE, P, both, score_function

from llm_dec_pomdp.agents import Request, Team
from llm_dec_pomdp.algorithms.options import UpdaterOptions
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.algorithms.updater import Updater, step_updaters, updaters_of
from llm_dec_pomdp.types import Completion, conversation

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def updater(policy: Any = None, **options: Any) -> Updater:
    """Of one policy, whose gradients are left unscaled unless asked otherwise."""
    team = Team({"agent_0": policy or Softmax(**THREE)})
    [only] = updaters_of(team, 1.0, UpdaterOptions(**{"max_grad_norm": 1e9, **options}))
    return only


def samples(*pairs: tuple[Sequence[int], float], agent: str = "agent_0") -> list[Sample]:
    """Texts of the given ids, each with its advantage."""
    return [Sample(agent, sampled(*ids), advantage) for ids, advantage in pairs]


GIVEN = samples(((0, 1), 2.0), ((2,), -0.5), ((2,), -0.5))


def table(of: Updater) -> Softmax:
    assert isinstance(of.policy, Softmax)
    return of.policy


# --- one policy -------------------------------------------------------------------------------------------------------


def test_the_first_gradient_is_the_mean_of_the_given_advantages_by_hand() -> None:
    fresh = updater()
    metrics = fresh.step(GIVEN)
    torch.testing.assert_close(table(fresh).logits.grad, -(2.0 * score_function(0, 1) - score_function(2)) / 4)
    assert metrics["tokens"] == 4
    assert metrics["loss"] == pytest.approx(-(2 * 2.0 - 2 * 0.5) / 4)
    assert metrics["clipped"] == 0


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_kl_estimate_is_the_rise_of_surprisal_over_the_same_texts_in_the_first_updates(epochs: int) -> None:
    fresh = updater(learning_rate=0.5, epochs=epochs, clip_high=9.0)
    for number in range(12):
        before = table(fresh).logits.detach().log_softmax(-1)
        metrics = fresh.step(GIVEN, number)
        change = (before - table(fresh).logits.detach().log_softmax(-1))[[0, 1, 2, 2]]
        assert metrics.get("kl_estimate") == (pytest.approx(float(change.mean()), abs=1e-6) if number < 10 else None)
    assert "kl_estimate" not in updater().step(samples(((0,), 0.0)))


def test_texts_of_others_without_tokens_and_without_score_are_left_alone() -> None:
    strange = [*samples(((1,), 9.0), agent="agent_1"), *samples(((), 9.0), ((1,), math.nan))]
    mixed, plain = updater(learning_rate=0.1), updater(learning_rate=0.1)
    assert mixed.step([*strange, *GIVEN]) == plain.step(GIVEN)
    assert torch.equal(table(mixed).logits, table(plain).logits)
    assert list(plain.logprobs) == [0, 1, 2]
    assert mixed.logprobs == {place + len(strange): p for place, p in plain.logprobs.items()}


def test_a_text_in_half_of_the_trajectories_has_half_the_weight() -> None:
    fresh, first = updater(), GIVEN[0]
    fresh.step([replace(first, weight=0.5), GIVEN[1]])
    torch.testing.assert_close(table(fresh).logits.grad, -(score_function(0, 1) - 0.5 * score_function(2)) / 2)


# --- all policies of a team -------------------------------------------------------------------------------------------


def test_every_policy_steps_on_its_own_samples_and_the_metrics_are_means() -> None:
    team = softmax_team(**THREE)
    options = UpdaterOptions(learning_rate=0.0, max_grad_norm=1e9)
    metrics = step_updaters(updaters_of(team, 1.0, options), [*GIVEN, *samples(((1,), 1.0), agent="agent_1")], seed=0)
    torch.testing.assert_close(gradients(team)[1], -score_function(1))
    assert metrics["tokens"] == (4 + 1) / 2
    assert metrics["loss"] == pytest.approx((-3 / 4 - 1) / 2)


def test_a_learner_from_outside_takes_the_updaters_and_brings_its_own_credit() -> None:
    """Imitates the best episode that could be scored; goes on exactly where it was saved."""
    played = group([1.0, math.nan, 0.0], [both(sampled(0)), both(sampled(2)), both(sampled(1))])
    team, again = softmax_team(**THREE), softmax_team(**THREE)
    kind = runpy.run_path(str(EXAMPLES / "best_of_group.py"))["BestOfGroup"]
    learner = kind(team, SAMPLING, UpdaterOptions(learning_rate=0.1))
    for _ in range(30):
        learner.update([played])
    assert all(float(state["logits"].softmax(-1)[0]) > 0.9 for state in weights(team))
    resumed = kind(again, SAMPLING, UpdaterOptions(learning_rate=0.1))
    resumed.load_state_dict(copy.deepcopy(learner.state_dict()))
    for policy, saved in zip(again.trainable, weights(team), strict=True):
        policy.load_state_dict(saved)
    assert learner.update([played]) == resumed.update([played])
    assert same(weights(team), weights(again))


def test_a_mean_over_policies_tells_what_only_one_of_them_knows() -> None:
    class Says:
        policy = Softmax()

        def __init__(self, **numbers: float) -> None:
            self.numbers = numbers

        def step(self, samples: Any, seed: int) -> dict[str, float]:
            return self.numbers

    assert step_updaters([Says(a=1.0, b=5.0), Says(a=2.0)], [], 0) == {"a": 1.5, "b": 5.0}  # type: ignore[list-item]


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_a_restored_updater_steps_as_the_one_that_was_saved() -> None:
    """Moments, schedule, order of minibatches, micro-batch, and the reference that is not the policy any more."""
    options: dict[str, Any] = {"beta": 0.1, "minibatches": 2, "schedule": "linear", "horizon": 9, "warmup": 2}
    options |= {"learning_rate": 0.01, "epochs": 2, "micro_batch": 2}
    policy = language_model(1)
    drawn = policy.generate(
        [Request("agent_0", conversation(f"say {word}"), (1, 2)) for word in ("red", "blue")], SAMPLING
    )
    texts: list[Completion] = [text for texts in drawn for text in texts]
    samples = [
        Sample("agent_0", text, advantage) for text, advantage in zip(texts, (1.0, -1.0, 0.5, -2.0), strict=True)
    ]
    alone = updater(policy, **options)
    for seed in (1, 2):
        alone.step(samples, seed)
    alone.micro_batch.size = 1
    state, trained = copy.deepcopy((alone.state_dict(), policy.state_dict()))

    other = language_model(2)  # its reference would be another one
    restored = updater(other, **options)
    restored.load_state_dict(state)
    other.load_state_dict(trained)
    assert restored.step(samples, 3) == alone.step(samples, 3)
    assert same([policy.state_dict()], [other.state_dict()])
    assert not same([trained], [other.state_dict()])
    assert restored.micro_batch.size == 1


def test_every_token_has_its_own_advantage() -> None:
    policy = Softmax(**THREE)
    updater(policy).step(
        [Sample("agent_0", sampled(0, 2), 2.0, tokens=(1.0, -0.5)), Sample("agent_0", sampled(1), 3.0)]
    )
    # minus the mean over three tokens of A (one-hot - p), A = 2, -1, 3 for the tokens a, c, b
    torch.testing.assert_close(policy.logits.grad, -(torch.tensor([2.0, 3.0, -1.0]) - 4.0 * P) / 3)


@pytest.mark.parametrize(
    ("ratio", "tokens", "message"),
    [
        ("token", (1.0, 1.0), "1 tokens.* 2 advantages"),
        ("sequence", (1.0,), "ratio is 'sequence'"),
    ],
)
def test_advantages_of_tokens_that_do_not_fit_are_refused(ratio: str, tokens: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        updater(ratio=ratio).step([Sample("agent_0", sampled(0), 1.0, tokens=tokens)])
