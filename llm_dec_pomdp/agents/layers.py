# pyright: basic
"""What the layers of a model of the Llama form compute for one new token a row, without the cost of module calls.

Models of the same shape can compute as one: their weights are stacked, and M small products become one batched product.
A state is [B, in] for one model and [M, B, in] for M of them; where the functions below take several modules, they are
the same module of each model.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

_COPIED = 1 << 20  # weights of one model that are copied to be used side by side, at most
Function = Callable[[torch.Tensor], torch.Tensor]


class Layer:
    """The parts of a layer.

    Args:
        layers: The layer of each model.
    """

    def __init__(self, layers: Sequence[Any]) -> None:
        self.norm = norm([layer.input_layernorm for layer in layers])
        self.second_norm = norm([layer.post_attention_layernorm for layer in layers])
        q, k, v, o, gate, up, down = zip(*map(projections, layers), strict=True)
        self.qkv, self.o = joined(q, k, v), linear(o)
        self.gate_and_up, self.down = joined(gate, up), linear(down)


def projections(layer: Any) -> tuple[Any, ...]:
    """The seven products of a layer."""
    attention, mlp = layer.self_attn, layer.mlp
    return (
        *(attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj),
        *(mlp.gate_proj, mlp.up_proj, mlp.down_proj),
    )


def norm(modules: Sequence[Any]) -> Function:
    """The root-mean-square norm."""
    first = modules[0]
    one = functools.partial(torch.rms_norm, normalized_shape=first.weight.shape, eps=first.variance_epsilon)
    if len(modules) == 1:
        return functools.partial(one, weight=first.weight)
    weight = torch.stack([module.weight for module in modules])[:, None]
    return lambda x: one(x) * weight


def linear(modules: Sequence[Any]) -> Function:
    """A linear layer; a single one may be of any kind."""
    if plain(*modules):
        return _product([module.weight for module in modules], [module.bias for module in modules])
    (module,) = modules
    return lambda x: module(x[:, None])[:, 0]


def joined(*parts: Sequence[Any]) -> Function:
    """The outputs of linear layers side by side: of one product where they are plain and small enough to be copied."""
    each = list(zip(*parts, strict=True))  # by model
    alike = plain(*itertools.chain(*each)) and len({module.bias is None for module in itertools.chain(*each)}) == 1
    if alike and sum(module.weight.numel() for module in each[0]) <= _COPIED:
        weights = [torch.cat([module.weight for module in modules]) for modules in each]
        biased = each[0][0].bias is not None
        return _product(weights, [torch.cat([m.bias for m in modules]) if biased else None for modules in each])
    functions = [linear(modules) for modules in parts]
    return lambda x: torch.cat([function(x) for function in functions], dim=-1)


def plain(*modules: Any) -> bool:
    """Linear layers without anything around them."""
    return all(type(module) is torch.nn.Linear for module in modules)


def _product(weights: Sequence[torch.Tensor], biases: Sequence[Any]) -> Function:
    """W x + b; either all models have a bias [out] or none has."""
    if len(weights) == 1:
        return functools.partial(functional.linear, weight=weights[0], bias=biases[0])
    weight = torch.stack(list(weights)).transpose(1, 2)
    if biases[0] is None:
        return functools.partial(torch.bmm, mat2=weight)
    bias = torch.stack(list(biases))[:, None]
    return lambda x: torch.baddbmm(bias, x, weight)
