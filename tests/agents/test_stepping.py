"""One token at a time: by the model itself, and by its layers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from models import AGENTS, network
from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM

from llm_dec_pomdp.agents.loading import load_team
from llm_dec_pomdp.agents.stepping import LayerSteps, ModelSteps, forward, layerwise, shape, steps


def qwen(**options: Any) -> Any:
    settings = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    settings |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
    torch.manual_seed(0)
    return Qwen2ForCausalLM(Qwen2Config(**{**settings, **options}, initializer_range=0.3)).eval()


def gpt() -> Any:
    return GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2)).eval()


def begin(model: Any, adapters: list[str | None], padded: bool = True) -> tuple[Any, torch.Tensor]:
    ids = torch.arange(12).view(2, 6) % 20
    mask = torch.ones(2, 6, dtype=torch.long)
    if padded:
        mask[0, :2] = 0
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    return forward(model, adapters, use_cache=True, **inputs).past_key_values, mask


def both_ways(model: Any, count: int, adapters: list[str | None], padded: bool = True) -> list[torch.Tensor]:
    """Logits of `count` steps of three rows, the first of which leaves after two steps."""
    index, found = torch.tensor([0, 1, 1]), []
    starts = [begin(model, [adapters[0], adapters[1]], padded) for _ in "12"]
    ways = ModelSteps(model, *starts[0], index), LayerSteps([model], *starts[1], index, count)
    for way in ways:
        names = [adapters[i] for i in index.tolist()]
        logits = []
        for number in range(count):
            if number == 2:
                way.keep(torch.tensor([1, 2]))
                names = names[1:]
            logits.append(way.step(torch.arange(len(names)) + number % 7, names))
        found.append(torch.cat(logits))
    return found


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("make", [network, qwen])
@torch.no_grad()
def test_layers_give_the_logits_of_the_model_beyond_the_first_buffer(make: Any, padded: bool) -> None:
    wanted, found = both_ways(make(), 70, [None, None], padded)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_every_row_keeps_its_adapter(folder: str) -> None:
    team = load_team(AGENTS, folder, sharing="lora", device="cpu")
    model = team.members[AGENTS[0]].model  # type: ignore[attr-defined]
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    assert layerwise(model)
    wanted, found = both_ways(model, 5, list(AGENTS))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    swapped, _ = both_ways(model, 5, list(reversed(AGENTS)))
    assert not torch.allclose(swapped, wanted, atol=1e-2)


def test_other_forms_are_asked_themselves() -> None:
    sliding = qwen(use_sliding_window=True, sliding_window=4, max_window_layers=0)
    assert [layerwise(model) for model in (network(), qwen(), gpt(), sliding)] == [True, True, False, False]


def test_a_model_that_computes_otherwise_is_found_out() -> None:
    model = copy.deepcopy(network())
    model.model.layers[0].mlp.register_forward_hook(lambda module, inputs, output: 2 * output)
    assert not layerwise(model)
    with torch.no_grad():
        cache, mask = begin(model, [None, None])
    assert isinstance(steps([model], cache, mask, torch.tensor([0, 1]), 4), ModelSteps)


# --- several models at once -------------------------------------------------------------------------------------------


def qwens(count: int, **options: Any) -> list[Any]:
    """Models that differ in every number: weights, biases, and norms."""
    models = [qwen(**options) for _ in range(count)]
    for seed, model in enumerate(models):
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return models


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("form", [{}, {"attention_bias": False, "tie_word_embeddings": True}])
@torch.no_grad()
def test_models_of_one_shape_give_their_own_logits_together(padded: bool, form: dict[str, Any]) -> None:
    models, index = qwens(3, **form), torch.tensor([0, 1, 1])
    starts = [[begin(model, [None, None], padded) for model in models] for _ in "12"]
    alone = [ModelSteps(model, *start, index) for model, start in zip(models, starts[0], strict=True)]
    caches, masks = zip(*starts[1], strict=True)
    for number, layer in enumerate(caches[0].layers):
        layer.keys = torch.cat([cache.layers[number].keys for cache in caches])
        layer.values = torch.cat([cache.layers[number].values for cache in caches])
    rows = torch.cat([index + 2 * number for number in range(3)])
    together = steps(models, caches[0], torch.cat(masks), rows, 70)
    left = [[1, 2], [0, 2], [0, 1]]  # rows of each model from the third step on
    for number in range(70):
        if number == 2:
            for way, keep in zip(alone, left, strict=True):
                way.keep(torch.tensor(keep))
            together.keep(torch.tensor([row + 3 * model for model, keep in enumerate(left) for row in keep]))
        count = 3 if number < 2 else 2
        tokens = (torch.arange(3 * count) + number) % 40
        parts = [way.step(part, [None] * count) for way, part in zip(alone, tokens.split(count), strict=True)]
        torch.testing.assert_close(together.step(tokens, [None] * 3 * count), torch.cat(parts), rtol=1e-4, atol=1e-4)


def test_a_shape_is_all_but_the_numbers() -> None:
    first, second = qwens(2)
    assert shape(first) is not None
    assert shape(first) == shape(second)
    others = [qwen(rope_theta=5e5), qwen(rms_norm_eps=1e-2), qwen(num_attention_heads=2), qwen().double(), network()]
    assert len({shape(model) for model in (first, *others)}) == 6


def test_models_that_cannot_be_stacked_have_no_shape(folder: str) -> None:
    adapted = load_team(AGENTS, folder, sharing="lora", device="cpu").members[AGENTS[0]]
    wrapped = qwen()
    wrapped.lm_head = torch.nn.Sequential(wrapped.lm_head)
    wrapped.lm_head.weight = wrapped.lm_head[0].weight  # as others of its parts ask for it
    large = qwen(vocab_size=70_000)
    assert [shape(m) for m in (adapted.model, gpt(), wrapped, large)] == [None] * 4  # type: ignore[attr-defined]
