"""Weights in float32 and products in bfloat16: how all weights are trained on CUDA; here on the processor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models import AGENTS, match, network, tokenizer
from requests_of_agents import SHORT, pairs, recorded

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.agents.io.models import mixed_precision
from llm_dec_pomdp.agents.language_model.logprobs import CHUNK
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.language_model.stepping import layerwise
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.rollout import Trajectories


@pytest.mark.parametrize(
    ("dtype", "device", "trained", "mixed"),
    [
        ("auto", "cuda:0", True, True),
        ("auto", "cuda:0", False, False),  # all of it is bfloat16
        ("auto", "cpu", True, False),
        ("float32", "cuda:0", True, False),
        ("bfloat16", "cuda", True, False),
    ],
)
def test_what_is_trained_on_cuda_is_computed_in_bfloat16(dtype: str, device: str, trained: bool, mixed: bool) -> None:
    assert mixed_precision(dtype, device, trained) is mixed


def mixed_model(seed: int = 1, **options: Any) -> LanguageModel:
    """Weights in float32, products in bfloat16, on the processor here."""
    size = {"hidden_size": 64, "intermediate_size": 64, "spread": 0.2}
    return LanguageModel(network(seed, **size), tokenizer(), compute_dtype=torch.bfloat16, **options)


class Products:
    """Notes the types of what linear layers are given."""

    def __init__(self, policy: LanguageModel) -> None:
        self.dtypes: set[torch.dtype] = set()
        for layer in policy.model.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.register_forward_hook(lambda layer, inputs, output: self.dtypes.add(output.dtype))


@pytest.mark.parametrize("checkpointing", [False, True])
def test_sampler_and_trainer_compute_the_same_in_mixed_precision(checkpointing: bool) -> None:
    policy = mixed_model(gradient_checkpointing=checkpointing)
    exact = LanguageModel(policy.model, tokenizer())
    samples = pairs(policy)
    policy.token_logprobs(samples, 1.0)  # and what has to be known of the model is known
    products = Products(policy)
    logprobs, mask = policy.token_logprobs(samples, 1.0)
    assert products.dtypes == {torch.bfloat16}
    assert logprobs.dtype == torch.float32
    noted = recorded(samples, mask.shape[1])
    torch.testing.assert_close(logprobs * mask, noted, rtol=0, atol=0.1)
    wanted, _ = exact.token_logprobs(samples, 1.0)
    assert 1e-4 < (logprobs - wanted).abs().max() < 0.1
    assert (logprobs * mask - noted).abs().mean() < (wanted * mask - noted).abs().mean()  # more alike than to float32


@pytest.mark.parametrize("chunk", [1 << 22, 30])
def test_gradients_are_those_of_float32_to_the_precision_of_bfloat16(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHUNK, "cpu", chunk)
    policy = mixed_model()
    exact = LanguageModel(policy.model, tokenizer())
    samples = pairs(policy)
    gradients = []
    for model in (policy, exact):
        policy.model.zero_grad()
        logprobs, mask = model.token_logprobs(samples, 1.0)
        (logprobs * mask).sum().backward()
        assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    difference = (gradients[0] - gradients[1]).norm() / gradients[1].norm()
    assert 1e-5 < difference < 0.06


def test_small_steps_are_not_lost_in_mixed_precision() -> None:
    """A change far below what bfloat16 holds, which is what float32 weights are for."""
    team = Team({agent: mixed_model(seed) for seed, agent in enumerate(AGENTS)})
    before = [p.detach().clone() for policy in team.trainable for p in policy.parameters()]
    learner = MAGRPO(team, SHORT, MAGRPOConfig(learning_rate=1e-6, advantage="raw"))
    groups = Trajectories().play(match(), team, ["t0"], [1], SHORT, 4)
    for episode in groups[0].episodes:
        object.__setattr__(episode.turns[0], "reward", 1.0)
    assert learner.update(groups)["skipped"] == 0
    after = [p for policy in team.trainable for p in policy.parameters()]
    moved = [(a != b).float().mean() for a, b in zip(after, before, strict=True)]
    assert min(moved) > 0.1
    assert all(((a - b).abs() < 1e-5).all() for a, b in zip(after, before, strict=True))


def test_the_reference_computes_as_the_policy_does() -> None:
    team = Team({agent: mixed_model(seed) for seed, agent in enumerate(AGENTS)})
    learner = MAGRPO(team, SHORT, MAGRPOConfig(beta=0.1))
    assert all(u.reference.compute_dtype is torch.bfloat16 for u in learner.updaters)  # type: ignore[attr-defined]
    groups = Trajectories().play(match(), team, ["t0"], [1], SHORT, 4)
    assert learner.update(groups)["kl"] == 0


def test_what_steps_a_model_is_chosen_by_its_weights_and_not_in_mixed_precision() -> None:
    policy = mixed_model()
    with policy.precision():
        assert layerwise(policy.model)
