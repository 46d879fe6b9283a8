# pyright: basic
"""The layers of a Llama-like model as plain functions for one new token per row, without module calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

_COPIED = 1 << 20  # maximum number of weights that are copied to join layers
Function = Callable[[torch.Tensor], torch.Tensor]


class Layer:
    """The parts of a layer of a model as functions of states [B, in]."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.norm, self.second_norm = norm(layer.input_layernorm), norm(layer.post_attention_layernorm)
        self.qkv, self.o = joined(attention.q_proj, attention.k_proj, attention.v_proj), linear(attention.o_proj)
        self.qk_norm = heads_norm(attention) if hasattr(attention, "q_norm") else None
        self.gate_and_up, self.down = joined(mlp.gate_proj, mlp.up_proj), linear(mlp.down_proj)


def norm(module: Any) -> Function:
    """Return the function of a root-mean-square norm."""
    weight = module.weight
    return functools.partial(torch.rms_norm, normalized_shape=weight.shape, weight=weight, eps=module.variance_epsilon)


def heads_norm(attention: Any) -> Function:
    """Return the function of the norms of queries and keys (Qwen3), which are concatenated [B, heads, size]."""
    queries, keys = attention.q_norm, attention.k_norm
    size = attention.head_dim
    heads = attention.q_proj.out_features // size, attention.k_proj.out_features // size
    weight = torch.cat([queries.weight.expand(heads[0], size), keys.weight.expand(heads[1], size)])
    return lambda x: torch.rms_norm(x, (size,), eps=queries.variance_epsilon) * weight


def linear(module: Any) -> Function:
    """Return the function of a linear layer of any kind."""
    if plain(module):
        return functools.partial(functional.linear, weight=module.weight, bias=module.bias)
    if adapted(module):
        return module.stacked(linear(module.base_layer), [module])
    return lambda x: module(x[:, None])[:, 0]


def joined(*modules: Any) -> Function:
    """Return a function of the concatenated outputs of linear layers; one product if these are plain and small."""
    if adapted(*modules):
        return modules[0].stacked(joined(*(module.base_layer for module in modules)), modules)
    alike = plain(*modules) and len({module.bias is None for module in modules}) == 1
    if alike and sum(module.weight.numel() for module in modules) <= _COPIED:
        weight = torch.cat([module.weight for module in modules])
        bias = torch.cat([module.bias for module in modules]) if modules[0].bias is not None else None
        return functools.partial(functional.linear, weight=weight, bias=bias)
    functions = [linear(module) for module in modules]
    return lambda x: torch.cat([function(x) for function in functions], dim=-1)


def adapted(*modules: Any) -> bool:
    """Return whether these are plain linear layers with mixed adapters (`MixedLinear`)."""
    return all(hasattr(module, "rows") and plain(module.base_layer) for module in modules)


def plain(*modules: Any) -> bool:
    """Return whether these are linear layers without adapters or other additions."""
    return all(type(module) is torch.nn.Linear for module in modules)
