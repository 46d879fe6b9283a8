"""Chunked log-probabilities equal the plain ones, in value and in gradient, whatever is trained."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from llm_dec_pomdp.agents.language_model.logprobs import chunked_logprobs


def problem(*, trained: bool, bias: bool = False, dtype: torch.dtype = torch.float64) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(7, 5, generator=generator, dtype=dtype, requires_grad=True)
    weight = torch.randn(11, 5, generator=generator, dtype=dtype, requires_grad=trained)
    offset = torch.randn(11, generator=generator, dtype=dtype, requires_grad=trained) if bias else None
    ids = torch.randint(11, (7,), generator=generator)
    return hidden, weight, offset, ids


def plain(hidden: Any, weight: Any, bias: Any, ids: Any, temperature: float) -> torch.Tensor:
    logits = torch.nn.functional.linear(hidden, weight, bias).float() / temperature
    return logits.log_softmax(-1).gather(1, ids[:, None])[:, 0]


@pytest.mark.parametrize("chunk", [1, 11, 25, 10_000])  # below a row, one row, not a divisor, everything
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_values_and_gradients_are_those_of_the_plain_way(
    chunk: int, bias: bool, trained: bool, temperature: float
) -> None:
    weights = torch.linspace(-1, 2, 7)
    gradients: list[list[torch.Tensor]] = []
    values: list[torch.Tensor] = []
    for way in (plain, lambda *a: chunked_logprobs(*a, chunk=chunk)):
        tensors = problem(trained=trained, bias=bias)
        value = way(*tensors, temperature)
        (value * weights).sum().backward()
        values.append(value.detach())
        gradients.append([t.grad for t in tensors[:3] if t is not None and t.requires_grad])
    torch.testing.assert_close(values[1], values[0])
    assert len(gradients[0]) == len(gradients[1]) == 1 + trained * (1 + bias)
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_no_positions_give_no_log_probabilities() -> None:
    hidden, weight, bias, ids = problem(trained=False)
    assert chunked_logprobs(hidden[:0], weight, bias, ids[:0], 1.0).shape == (0,)


def test_bfloat16_gives_float32() -> None:
    hidden, weight, bias, ids = problem(trained=False, dtype=torch.bfloat16)
    value = chunked_logprobs(hidden, weight, bias, ids, 1.0)
    assert value.dtype == torch.float32
    value.sum().backward()
    assert hidden.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("trained", [False, True])
def test_nothing_of_the_size_of_all_logits_is_kept(trained: bool) -> None:
    hidden, weight, bias, ids = problem(trained=trained)
    sizes: list[int] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        chunked_logprobs(hidden, weight, bias, ids, 1.0, chunk=11)
    assert max(sizes) < len(hidden) * len(weight)
