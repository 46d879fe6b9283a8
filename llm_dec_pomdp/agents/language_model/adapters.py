# pyright: basic
"""LoRA adapters of several agents in one forward pass.

peft splits the batch by adapter in every layer. Here the adapters of a layer are joined into one pair of matrices, and
a mask keeps for each row only the low-rank part of its own adapter:

    y = W x + B (m * (A x)),   A = [A_1; ...; A_n],   B = [s_1 B_1, ..., s_n B_n],   m = 1 on the row's own block

Modules and parameters stay peft's, so that peft can load what is saved.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from peft.tuners.lora import Linear as LoraLinear
from peft.tuners.lora import LoraLayer
from torch.nn.functional import linear

from .names import adapter_of, with_adapter

_BEYOND = ("use_dora", "lora_bias", "modules_to_save", "trainable_token_indices")  # more than the equation above


class Rows:
    """Which adapter each row of the current batch uses; shared by all layers of a model.

    Args:
        names: The adapters of its policies.
        rank: Rank of each.

    Attributes:
        names: The adapters of the current batch: those of policies, or those of critics.
        critics: Adapters of critics on the same model, see `add_critic_adapters`.
    """

    def __init__(self, names: Sequence[str], rank: int) -> None:
        self.policies, self.critics = list(names), list[str]()
        self.names = self.policies
        self.rank = rank
        self.mask: torch.Tensor | None = None
        self._chosen: tuple[Any, ...] = ()

    def choose(self, adapters: Sequence[str | None], device: torch.device) -> None:
        """Set the adapters of the next batch; a row with an unknown adapter uses the base model."""
        wanted = (*adapters, device)
        if wanted == self._chosen:
            return
        self._chosen = wanted
        self.names = self.policies if set(self.critics).isdisjoint(adapters) else self.critics
        with torch.inference_mode(False):  # the next batch may be trained on
            mask = torch.zeros(len(adapters), len(self.names))
            for row, name in enumerate(adapters):
                if name in self.names:
                    mask[row, self.names.index(name)] = 1
            self.mask = mask.repeat_interleave(self.rank, dim=1)[:, None].to(device) if mask.any() else None


class _LowRank(torch.autograd.Function):
    """B (m * (A x)), which keeps nothing for the backward pass that is not in memory anyway.

    Products are in the type of x, as those of W: with adapters in float32 on a base in bfloat16 it is the adapters that
    are cast. Autograd would keep A, B and A x for each pass. Here A x is computed again, which is little beside W x.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, mask: torch.Tensor, scales: Sequence[float], *factors: torch.Tensor
    ) -> torch.Tensor:
        """`factors` are A_1, ..., A_n, B_1, ..., B_n."""
        ctx.save_for_backward(x, mask, *factors)
        ctx.scales = scales
        down, up = _side_by_side(factors, scales, x.dtype)
        return linear(linear(x, down) * mask, up)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, mask, *factors = ctx.saved_tensors
        down, up = _side_by_side(factors, ctx.scales, x.dtype)
        outputs = gradients[0].to(x.dtype)  # of another type under autocast
        low = linear(x, down) * mask
        by_low = (outputs @ up) * mask
        by_down = (by_low.flatten(0, -2).T @ x.flatten(0, -2)).chunk(len(ctx.scales))
        by_up = (outputs.flatten(0, -2).T @ low.flatten(0, -2)).chunk(len(ctx.scales), dim=1)
        scaled = [part * scale for part, scale in zip(by_up, ctx.scales, strict=True)]
        by_factor = (part.to(factor.dtype) for part, factor in zip((*by_down, *scaled), factors, strict=True))
        return by_low @ down, None, None, *by_factor


def _side_by_side(
    factors: Sequence[torch.Tensor], scales: Sequence[float], dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """A and B of the equation."""
    downs, ups = factors[: len(scales)], factors[len(scales) :]
    up = torch.cat([up * scale for up, scale in zip(ups, scales, strict=True)], dim=1)
    return torch.cat(list(downs)).to(dtype), up.to(dtype)


class MixedLinear(LoraLinear):
    """A linear layer of peft whose adapters are applied by the mask of `rows`."""

    rows: Rows

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """[B, L, in] -> [B, L, out], every row through its own adapter."""
        result = self.base_layer(x)
        rows = self.rows
        if rows.mask is None:
            return result
        factors: list[Any] = [layer[name].weight for layer in (self.lora_A, self.lora_B) for name in rows.names]
        scales = [self.scaling[name] for name in rows.names]
        low: Any = _LowRank.apply(x, rows.mask.to(x.dtype), scales, *factors)
        return result + low.to(result.dtype)

    @staticmethod
    def side_by_side(
        base: Callable[[torch.Tensor], torch.Tensor], layers: Sequence[MixedLinear]
    ) -> Callable[..., torch.Tensor]:
        """What layers of the same input give for states [B, in], side by side [B, out]; without gradient.

        Adapters are joined once, as they are now: one product of all layers into the low rank and one out of it.

        Args:
            base: The outputs without adapters, side by side.
            layers: Layers of the same `rows`.
        """
        rows = layers[0].rows
        pairs = []
        for layer in layers:
            factors: list[Any] = [part[name].weight for part in (layer.lora_A, layer.lora_B) for name in rows.policies]
            scales = [layer.scaling[name] for name in rows.policies]
            base_weight: Any = layer.base_layer.weight
            pairs.append(_side_by_side(factors, scales, base_weight.dtype))
        down, up = torch.cat([down for down, _ in pairs]), torch.block_diag(*(up for _, up in pairs))

        def function(x: torch.Tensor) -> torch.Tensor:
            result = base(x)
            if rows.mask is None:
                return result
            mask = rows.mask[:, 0].to(x.dtype).repeat(1, len(layers))
            return result + linear(linear(x, down) * mask, up).to(result.dtype)

        return function


def mix_adapters(model: Any) -> Rows:
    """Let one pass mix all linear adapters of a peft model; returns the `Rows` that choose among them.

    Raises:
        ValueError: The model has adapters of several ranks, or of another kind than linear LoRA.
    """
    layers: list[Any] = [module for module in model.modules() if isinstance(module, LoraLayer)]
    unlike = [
        type(layer).__name__
        for layer in layers
        if not isinstance(layer, LoraLinear) and not isinstance(layer.get_base_layer(), torch.nn.Linear)  # of few bits
    ]
    if unlike:
        raise ValueError(f"adapters on {unlike[0]} layers cannot be mixed in a batch; put LoRA on linear layers only")
    _refuse_more_than_lora(model, layers)
    mixed_before = next((layer.rows for layer in layers if isinstance(layer, MixedLinear)), None)
    if mixed_before is not None:
        return mixed_before
    ranks = {rank for layer in layers for rank in layer.r.values()}
    if len(ranks) != 1:
        raise ValueError(f"the adapters have ranks {sorted(ranks)}; give all the same rank to mix them in a batch")
    rows = Rows(list(layers[0].lora_A), ranks.pop())
    for layer in layers:
        layer.__class__ = MixedLinear  # the parameters and their names stay as they are
        layer.rows = rows
    return rows


def add_critic_adapters(model: Any, adapters: Iterable[str]) -> dict[str, str]:
    """One more adapter of the same form for each of these adapters; returns the new names.

    Each takes the present weights of the adapter it is made for. Policies do not use, train or save it. There is one
    for each adapter: it is taken again by the next critic.
    """
    rows: Rows = model.mixed_rows
    names = {adapter: f"{adapter}_critic" for adapter in adapters}
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft asks transformers for an attribute under its old name
        torch.manual_seed(0)
        for adapter, critic in names.items():
            if critic not in rows.critics:
                model.add_adapter(critic, copy.deepcopy(model.peft_config[adapter]))
                rows.critics.append(critic)
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in parameters.items():
            if (adapter := adapter_of(name)) in names:
                whole: Any = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter  # a DTensor
                parameters[with_adapter(name, names[adapter])].copy_(whole)
    for name, parameter in parameters.items():  # peft trains the adapter that it takes for the active one
        parameter.requires_grad_(name in trained or adapter_of(name) in rows.critics)
    return names


def _refuse_more_than_lora(model: Any, layers: Sequence[Any]) -> None:
    """Refuse adapters that compute more than the equation of this module."""
    unsupported = {
        (name, f"{option}={value!r}")
        for name, config in model.peft_config.items()
        for option in _BEYOND
        if (value := getattr(config, option, None))
    }
    unsupported |= {(name, type(variant).__name__) for layer in layers for name, variant in layer.lora_variant.items()}
    for name, reason in sorted(unsupported, key=lambda pair: "=" not in pair[1]):
        raise ValueError(
            f"adapter {name!r} has {reason}, and adapters mixed in a batch are plain LoRA; make it without"
        )
