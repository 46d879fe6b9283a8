"""Texts that were drawn under other log-probabilities than the trainer's: how far apart, and what they weigh then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from models import AGENTS, Softmax, gradients, group, language_model, network, softmax_team, tokenizer, weights
from updates import THREE, TWO_WORDS, P, gradient, make, play, score_function, table_team, updated

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.losses import importance_weights, log_ratio
from llm_dec_pomdp.algorithms.options import MGRPOConfig
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.algorithms.updater import updaters_of
from llm_dec_pomdp.types import Completion


class Elsewhere(Softmax):
    """A table whose words another program draws."""

    rollout_copy_differs = True


def drawn(ids: Sequence[int], ratios: Sequence[float]) -> Completion:
    """A text whose tokens are that many times as likely for the trainer as they were for the sampler."""
    logprobs = (math.log(float(P[k]) / ratio) for k, ratio in zip(ids, ratios, strict=True))
    return Completion("x", (0,), tuple(ids), tuple(logprobs))


OFF = group([1.0, 0.0], [{"agent_0": drawn((0, 1), (0.5, 3.0))}, {"agent_0": drawn((2,), (1.25,))}])


# --- the weights ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "wanted"), [("token", [[1.5, 2.0, 0.5], [0.5, 0.5, 1.0]]), ("sequence", [[2.0], [0.25]])]
)
def test_weights_are_truncated_have_no_gradient_and_leave_padding_alone(level: Any, wanted: Any) -> None:
    ratios = torch.tensor([[1.5, 4.0, 0.5], [0.5, 0.5, 9.0]])
    sampler = torch.full((2, 3), -1.0)
    trainer = (sampler + ratios.log()).requires_grad_()
    mask = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    found = importance_weights(log_ratio(trainer, sampler, mask, level)[0], 2.0)
    torch.testing.assert_close(found, torch.tensor(wanted))
    assert not found.requires_grad


FIRST, SECOND, WORSE = score_function(0), score_function(1), score_function(2)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"importance": "none"}, (FIRST + SECOND - WORSE) / 3),
        ({"importance": "token"}, (0.5 * FIRST + 2.0 * SECOND - 1.25 * WORSE) / 3),
        ({"importance": "sequence"}, (1.5 * FIRST + 1.5 * SECOND - 1.25 * WORSE) / 3),
        ({"importance": "sequence", "ratio": "sequence"}, (1.5 * FIRST + 1.5 * SECOND - 1.25 * WORSE) / 2),
    ],
    ids=str,
)
def test_the_gradient_of_what_another_program_drew(options: dict[str, Any], wanted: torch.Tensor) -> None:
    torch.testing.assert_close(gradient(OFF, **options), -wanted)


def test_later_passes_keep_the_weight_and_measure_rho_within_the_trainer() -> None:
    """By hand: the second gradient is that of w rho, with rho to the trainer's own first pass."""
    twice, once = table_team(), table_team()
    options: dict[str, Any] = {"learning_rate": 0.05, "clip_low": 1.0, "clip_high": 100.0, "importance": "token"}
    make(twice, epochs=2, **options).update([OFF])
    make(once, **options).update([OFF])
    logits = weights(once)[0]["logits"].requires_grad_()
    rho = logits.softmax(-1) / P
    (-(0.5 * rho[0] + 2.0 * rho[1] - 1.25 * rho[2]) / 3).backward()
    torch.testing.assert_close(gradients(twice)[0], logits.grad)


def test_one_pass_reads_the_texts_once() -> None:
    class Counted(Elsewhere):
        passes = 0

        def token_logprobs(self, samples: Any, temperature: float) -> Any:
            self.passes += torch.is_grad_enabled()  # the first updates are looked at without
            return super().token_logprobs(samples, temperature)

    policy = Counted(**THREE)
    make(Team({"agent_0": policy})).update([OFF])
    assert policy.passes == 1


# --- who is weighed by default ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "level"), [("token", "token"), ("sequence", "sequence"), ("sequence_mean", "sequence")]
)
def test_by_default_texts_of_another_sampler_have_the_importance_of_a_token_or_of_a_text(
    ratio: str, level: str
) -> None:
    [found] = updated(Team({"agent_0": Elsewhere(**THREE)}), [OFF], ratio=ratio)[1]
    torch.testing.assert_close(found, gradient(OFF, ratio=ratio, importance=level), rtol=0, atol=0)


def test_the_ratio_of_a_trajectory_takes_the_weight_of_the_trajectory() -> None:
    """Two texts of one trajectory, 1.5 and 1.25 times as likely for the trainer, and one of another."""
    rows = [((0,), (1.5,), 1.0, 0), ((1,), (1.25,), 1.0, 0), ((2,), (0.5,), -1.0, 1)]
    samples = [Sample("agent_0", drawn(ids, ratios), worth, trajectory=number) for ids, ratios, worth, number in rows]
    wanted = (1.875 * (FIRST + SECOND) - 0.5 * WORSE) / 2
    for order, micro_batch in (([0, 1, 2], 16), ([2, 0, 1], 1)):
        team = Team({"agent_0": Elsewhere(**THREE)})
        options = MGRPOConfig(ratio="trajectory", micro_batch=micro_batch, max_grad_norm=1e9)
        [updater] = updaters_of(team, 1.0, options)
        updater.step([samples[place] for place in order])
        torch.testing.assert_close(gradients(team)[0], -wanted)


def test_a_language_model_differs_from_its_sampler_below_32_bits() -> None:
    policy = language_model()
    assert not policy.rollout_copy_differs
    with torch.autocast("cpu", torch.bfloat16):
        assert policy.rollout_copy_differs
    policy.compute_dtype = torch.bfloat16
    assert policy.rollout_copy_differs
    policy.compute_dtype = None
    policy.model.lm_head.to(torch.bfloat16)  # one part is enough
    assert policy.rollout_copy_differs


# --- the gap ----------------------------------------------------------------------------------------------------------


def test_the_gap_by_hand() -> None:
    near = group([1.0, 0.0], [{"agent_0": drawn((0, 1), (1.005, 1.0))}, {"agent_0": drawn((2,), (math.exp(0.5),))}])
    metrics, _ = updated(table_team(), [near])
    assert metrics["sampler_gap"] == pytest.approx((math.log(1.005) + 0.5) / 3, rel=1e-5)
    assert metrics["sampler_gap_max"] == pytest.approx(0.5, rel=1e-5)
    assert metrics["sampler_gap_share"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("options", [{"epochs": 3}, {"minibatches": 2}], ids=str)
def test_later_steps_do_not_widen_the_gap(options: dict[str, Any]) -> None:
    other = group([1.0, 0.0], [{"agent_0": Completion("x", (n,), (n,), (-1.0,))} for n in (0, 1)])
    wanted, _ = updated(table_team(), [OFF, other])
    found, _ = updated(table_team(), [OFF, other], learning_rate=1.0, **options)
    for name in ("sampler_gap", "sampler_gap_max", "sampler_gap_share"):
        assert found[name] == pytest.approx(wanted[name])


@pytest.mark.filterwarnings("ignore:the parameters to be trained are bfloat16")
def test_sampling_in_16_bits_is_far_from_the_trainer_and_in_32_bits_it_is_not() -> None:
    found: list[dict[str, float]] = []
    for dtype in (torch.float32, torch.bfloat16):
        team = Team({agent: LanguageModel(network(i).to(dtype), tokenizer()) for i, agent in enumerate(AGENTS)})
        found.append(updated(team, play(team))[0])
    whole, half = found
    assert whole["sampler_gap_max"] < 1e-5
    assert whole["sampler_gap_share"] == 0
    assert half["sampler_gap"] > 100 * whole["sampler_gap"]
    assert half["sampler_gap_share"] > 0.1


def test_a_token_without_log_probability_is_named() -> None:
    bare = Completion("x", (0,), (0, 1), (-1.0,))
    with pytest.raises(ValueError, match="'agent_0' has 2 tokens and 1 "):
        make(softmax_team(**THREE)).update([TWO_WORDS, group([1.0], [{"agent_0": bare}])])
