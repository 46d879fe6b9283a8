# pyright: basic
"""Log-probabilities of given tokens from hidden states, without all logits in memory.

For T tokens and V vocabulary entries the logits are T x V numbers, which need most of an update's memory. Here at most
`CHUNK` of them exist at a time. Let h be the hidden state of a position, W the output layer, tau the temperature:

    log pi(v | h) = (W h)_v / tau - logsumexp((W h) / tau)
    d log pi(v | h) / d h = (W_v - sum over u of pi(u | h) W_u) / tau
    d log pi(v | h) / d W_u = ([u = v] - pi(u | h)) h / tau

If W is frozen (LoRA), the forward pass computes the expected row of W, and the backward pass needs no logits. If W is
trained, the backward pass recomputes the logits chunk by chunk, unless one chunk has all of them.

Products have the type of h, and gradients of W have the type of W, for mixed precision with h in bfloat16 and W in
float32.
"""

from __future__ import annotations

from typing import Any

import torch

from .layers import plain
from .stepping import forward

CHUNK = {"cpu": 1 << 22, "cuda": 1 << 24}  # logits in memory at a time; on a CPU, as many as fit into its cache
_LARGE = 1000.0  # a logit above every cap, which every floating-point type can represent


def chunked_logprobs(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    ids: torch.Tensor,
    temperature: float,
    chunk: int | None = None,
) -> torch.Tensor:
    """Return log pi of one token per position.

    Args:
        hidden: Hidden states [T, H].
        weight: Output layer [V, H]; used in the type of `hidden`.
        bias: Its bias [V], or None.
        ids: The tokens [T].
        temperature: The divisor of the logits.
        chunk: Number of logits in memory at a time; None: `CHUNK` of the device.

    Returns:
        Log-probabilities [T] in float32, differentiable in hidden, weight and bias.
    """
    if chunk is None:
        chunk = CHUNK.get(hidden.device.type, CHUNK["cuda"])
    rows = max(1, chunk // weight.shape[0])
    return _ChunkedLogprobs.apply(hidden, weight, bias, ids, temperature, rows)  # type: ignore[return-value]


def _logits(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, temperature: float) -> torch.Tensor:
    logits = torch.nn.functional.linear(hidden, weight, bias).float()
    return logits if temperature == 1 else logits.div_(temperature)


class _ChunkedLogprobs(torch.autograd.Function):
    """The equations of the module, chunk by chunk."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        ids: torch.Tensor,
        temperature: float,
        rows: int,
    ) -> torch.Tensor:
        trained = weight.requires_grad or (bias is not None and bias.requires_grad)
        expected = torch.empty_like(hidden) if hidden.requires_grad and not trained else None
        used, offset = _in_type_of(hidden, weight, bias)
        kept = None  # the probabilities, if a single chunk has all of them
        parts: list[torch.Tensor] = []
        for start in range(0, len(hidden), rows):
            part = slice(start, start + rows)
            logits = _logits(hidden[part], used, offset, temperature)
            logits.sub_(logits.amax(-1, keepdim=True))  # in place from here on: a copy costs more than the rest
            chosen = logits.gather(1, ids[part, None])
            total = logits.exp_().sum(-1, keepdim=True)
            parts.append((chosen - total.log())[:, 0])
            if trained and len(hidden) <= rows:
                kept = logits.div_(total).to(used.dtype)
            if expected is not None:
                expected[part] = logits.div_(total).to(used.dtype) @ used
        ctx.save_for_backward(hidden, weight, bias, ids, expected, kept)
        ctx.temperature, ctx.rows = temperature, rows
        return torch.cat(parts) if parts else hidden.new_empty(0, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        hidden, weight, bias, ids, expected, kept = ctx.saved_tensors
        scale = (gradients[0] / ctx.temperature)[:, None]
        if expected is not None:
            return (scale * (weight[ids].float() - expected.float())).to(hidden.dtype), None, None, None, None, None
        scaled = scale.to(hidden.dtype)
        used, offset = _in_type_of(hidden, weight, bias)
        by_hidden = used[ids]
        by_weight = torch.zeros_like(weight)
        by_bias = torch.zeros_like(bias) if bias is not None else None
        for start in range(0, len(hidden), ctx.rows):
            part = slice(start, start + ctx.rows)
            probabilities = kept
            if probabilities is None:
                probabilities = _logits(hidden[part], used, offset, ctx.temperature).softmax(-1).to(used.dtype)
            by_hidden[part] -= probabilities @ used
            _subtract_product(by_weight, probabilities.T, hidden[part] * scaled[part])
            if by_bias is not None:
                by_bias -= probabilities.T @ scaled[part, 0]
        by_weight.index_add_(0, ids, (hidden * scaled).to(by_weight.dtype))
        if by_bias is not None:
            by_bias.index_add_(0, ids, scaled[:, 0].to(by_bias.dtype))
        return by_hidden.mul_(scaled), by_weight, by_bias, None, None, None


def _in_type_of(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the output layer in the type of hidden states, without a copy if it has this type."""
    return weight.to(hidden.dtype), bias.to(hidden.dtype) if bias is not None else None


def _subtract_product(total: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Compute total -= a b in place, with the product in the type of its factors."""
    if total.dtype == a.dtype:
        total.addmm_(a, b, alpha=-1)
    else:
        total.sub_(a @ b)


def has_plain_head(model: Any, adapter: str | None) -> bool:
    """Return whether the logits are just the output layer of the last hidden state.

    Some model families scale or cap the logits, and the layer may have adapters. To test this, the last hidden state is
    replaced by noise that is large enough to reach a cap.

    Args:
        model: A causal language model of transformers, or a peft model.
        adapter: The adapter to use; None if there are no adapters.
    """
    head = model.get_output_embeddings()
    network = model if adapter is None else model.get_base_model()
    if not plain(head) or network.base_model is network:
        return False
    generator = torch.Generator().manual_seed(0)
    noise: list[torch.Tensor] = []

    def disturb(module: Any, inputs: Any, output: Any) -> Any:
        hidden = torch.randn(output.last_hidden_state.shape, generator=generator).to(output.last_hidden_state)
        hidden *= _LARGE / head(hidden).abs().max()
        noise.append(hidden)
        output.last_hidden_state = hidden
        return output

    hook = network.base_model.register_forward_hook(disturb)
    try:
        with torch.no_grad():
            ids = torch.arange(4, device=head.weight.device)[None] % head.weight.shape[0]
            logits = forward(model, [adapter], input_ids=ids).logits
            expected = [head(hidden).to(logits.dtype) for hidden in noise]
    finally:
        hook.remove()
    tolerance = 2 * torch.finfo(head.weight.dtype).eps * _LARGE
    return len(expected) == 1 and bool((logits - expected[0]).abs().max() <= tolerance)
