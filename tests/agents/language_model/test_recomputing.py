"""Gradient checkpointing: the same gradients from less memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from models import WORDS, network, tokenizer
from requests_of_agents import adapted, kept_bytes, pairs
from transformers import OPTConfig, OPTForCausalLM

from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.language_model.recomputing import recomputed
from llm_dec_pomdp.types import Completion

Pairs = list[tuple[str, Completion]]


def plain(*, on: bool) -> LanguageModel:
    return LanguageModel(network(1), tokenizer(), gradient_checkpointing=on)


def gradients(policy: LanguageModel, samples: Pairs, *, entropies: bool = False, between: Any = None) -> list[Any]:
    """Of a weighted sum of log-probabilities, with something done between the way forward and the way back."""
    if entropies:
        logprobs, extra, mask = policy.token_logprobs_and_entropies(samples, 0.7)
        logprobs = logprobs + extra * mask
    else:
        logprobs, _ = policy.token_logprobs(samples, 0.7)
    if between is not None:
        between()
    loss = (logprobs * torch.linspace(-1, 1, logprobs.numel()).view(logprobs.shape)).sum()
    return list(torch.autograd.grad(loss, list(policy.parameters()), allow_unused=True))


def agree(actual: list[Any], wanted: list[Any]) -> None:
    assert any(w is not None and w.abs().max() > 1e-3 for w in wanted)
    for a, w in zip(actual, wanted, strict=True):
        torch.testing.assert_close(a, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("entropies", [False, True])
def test_the_gradient_of_all_weights_is_the_same(entropies: bool) -> None:
    wanted, actual = plain(on=False), plain(on=True)
    samples = pairs(wanted)
    agree(gradients(actual, samples, entropies=entropies), gradients(wanted, samples, entropies=entropies))


def test_the_gradient_of_adapters_is_the_same(folder: str) -> None:
    wanted, actual = adapted(folder, gradient_checkpointing=False), adapted(folder, gradient_checkpointing=True)
    samples = pairs(wanted)
    agree(gradients(actual, samples), gradients(wanted, samples))


def test_another_batch_in_between_does_not_change_whose_adapters_are_trained(folder: str) -> None:
    policy = adapted(folder, gradient_checkpointing=True)
    samples = pairs(policy)
    wanted = gradients(policy, samples)

    def ask_the_reference() -> None:
        reference = copy.deepcopy(policy)
        with torch.no_grad():
            reference.token_logprobs(samples[:2], 1.0)

    agree(gradients(policy, samples, between=ask_the_reference), wanted)


def test_less_is_kept_for_the_way_back() -> None:
    samples = pairs(plain(on=False))
    assert kept_bytes(plain(on=True), samples) < 0.5 * kept_bytes(plain(on=False), samples)


def test_sampling_and_evaluation_do_not_notice() -> None:
    off, on = plain(on=False), plain(on=True)
    assert [c.token_ids for _, c in pairs(on)] == [c.token_ids for _, c in pairs(off)]
    with torch.no_grad():
        for f, w in zip(on.token_logprobs(pairs(off), 1.0), off.token_logprobs(pairs(off), 1.0), strict=True):
            assert torch.equal(f, w)


def test_layers_are_left_as_they_were() -> None:
    policy = plain(on=True)
    gradients(policy, pairs(policy))
    for module in policy.model.modules():
        assert not module.training
        assert not getattr(module, "gradient_checkpointing", False)


def test_dropout_stays_off() -> None:
    """The layers of this family drop out by themselves when they are in training mode."""
    options = {"hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 32, "num_hidden_layers": 2, "dropout": 0.5}
    options |= {"num_attention_heads": 2, "max_position_embeddings": 128, "vocab_size": 5 + len(WORDS)}
    config = OPTConfig(**options, init_std=0.3, bos_token_id=None, eos_token_id=2, pad_token_id=1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        off = LanguageModel(OPTForCausalLM(config), tokenizer())
    on = LanguageModel(off.model, tokenizer(), gradient_checkpointing=True)
    samples = pairs(off)
    agree(gradients(on, samples), gradients(off, samples))
    assert all("forward" not in vars(module) for module in on.model.modules())


def test_a_model_without_such_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="Linear"), recomputed(torch.nn.Linear(2, 2)):
        pass
