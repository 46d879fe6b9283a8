"""One token at a time: by the model itself, and by its layers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from models import AGENTS, network
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen3Config

from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.stepping import LayerSteps, ModelSteps, forward, layerwise, token_steps


def qwen(kind: Any = Qwen2Config, **options: Any) -> Any:
    settings = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    settings |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(kind(**{**settings, **options}, initializer_range=0.3)).eval()


def qwen3() -> Any:
    model = qwen(Qwen3Config, head_dim=8)
    for name, parameter in model.named_parameters():
        if "q_norm" in name or "k_norm" in name:
            torch.nn.init.normal_(parameter)
    return model


def gpt() -> Any:
    return GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2)).eval()


def begin(model: Any, adapters: list[str | None], padded: bool = True) -> tuple[Any, torch.Tensor]:
    ids = torch.arange(12).view(2, 6) % 20
    mask = torch.ones(2, 6, dtype=torch.long)
    if padded:
        mask[0, :2] = 0
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    return forward(model, adapters, use_cache=True, **inputs).past_key_values, mask


def all_ways(model: Any, count: int, adapters: list[str | None], padded: bool = True) -> list[torch.Tensor]:
    """Logits of `count` steps of three rows, the first of which leaves after two steps."""
    index = torch.tensor([0, 1, 1])
    starts = [begin(model, [adapters[0], adapters[1]], padded) for _ in "123"]
    grown, fixed = (LayerSteps(model, *starts[i], index, count, fixed=i == 2) for i in (1, 2))
    ways = ModelSteps(model, *starts[0], index), grown, fixed
    of_all_steps = []
    for way in ways:
        names = [adapters[i] for i in index.tolist()]
        logits = []
        for number in range(count):
            if number == 2:
                way.keep(torch.tensor([1, 2]))
                names = names[1:]
            logits.append(way.step(torch.arange(len(names)) + number % 7, names))
        of_all_steps.append(torch.cat(logits))
    return of_all_steps


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("make", [network, qwen, qwen3])
@torch.no_grad()
def test_layers_give_the_logits_of_the_model_beyond_the_first_buffer(make: Any, padded: bool) -> None:
    wanted, *others = all_ways(make(), 70, [None, None], padded)
    for logits in others:
        torch.testing.assert_close(logits, wanted, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_every_row_keeps_its_adapter(folder: str) -> None:
    team = load_team(AGENTS, folder, sharing="lora", device="cpu")
    model = team.members[AGENTS[0]].model  # type: ignore[attr-defined]
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    assert layerwise(model)
    wanted, *others = all_ways(model, 5, list(AGENTS))
    for logits in others:
        torch.testing.assert_close(logits, wanted, rtol=1e-4, atol=1e-4)
    swapped, *_ = all_ways(model, 5, list(reversed(AGENTS)))
    assert not torch.allclose(swapped, wanted, atol=1e-2)


def test_other_forms_are_asked_themselves() -> None:
    sliding = qwen(use_sliding_window=True, sliding_window=4, max_window_layers=0)
    assert [layerwise(model) for model in (network(), qwen(), qwen3(), gpt(), sliding)] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_a_model_that_computes_otherwise_is_found_out() -> None:
    model = copy.deepcopy(network())
    model.model.layers[0].mlp.register_forward_hook(lambda module, inputs, output: 2 * output)
    assert not layerwise(model)
    with torch.no_grad():
        cache, mask = begin(model, [None, None])
    assert isinstance(token_steps(model, cache, mask, torch.tensor([0, 1]), 4), ModelSteps)
