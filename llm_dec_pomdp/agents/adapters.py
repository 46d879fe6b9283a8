# pyright: basic
"""LoRA adapters of several agents in one forward pass.

peft mixes adapters by cutting the batch apart in every layer. Here the adapters of a layer stand side by side in one
pair of matrices, and a mask keeps for each row only the low-rank part of its own adapter:

    y = W x + B (m * (A x)),   A = [A_1; ...; A_n],   B = [s_1 B_1, ..., s_n B_n],   m = 1 on the row's own block

The modules and their parameters stay peft's: what is saved is loaded by peft.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from peft.tuners.lora import Linear as LoraLinear
from peft.tuners.lora import LoraLayer

_BEYOND = ("use_dora", "lora_bias", "modules_to_save", "trainable_token_indices")  # more than the equation above


class Rows:
    """Which adapter each row of the current batch uses; shared by all layers of a model.

    Args:
        names: All adapters.
        rank: Rank of each.
    """

    def __init__(self, names: Sequence[str], rank: int) -> None:
        self.names = list(names)
        self.rank = rank
        self.mask: torch.Tensor | None = None
        self._chosen: tuple[Any, ...] = ()

    def choose(self, adapters: Sequence[str | None], device: torch.device) -> None:
        """Set the adapters of the next batch; a row whose adapter is not ours uses the base model."""
        wanted = (*adapters, device)
        if wanted == self._chosen:
            return
        self._chosen = wanted
        with torch.inference_mode(False):  # the next batch may be trained on
            mask = torch.zeros(len(adapters), len(self.names))
            for row, name in enumerate(adapters):
                if name in self.names:
                    mask[row, self.names.index(name)] = 1
            self.mask = mask.repeat_interleave(self.rank, dim=1)[:, None].to(device) if mask.any() else None


class MixedLinear(LoraLinear):
    """A linear layer of peft whose adapters are applied by the mask of `rows`."""

    rows: Rows

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """[B, L, in] -> [B, L, out], every row through its own adapter."""
        result = self.base_layer(x)
        rows = self.rows
        if rows.mask is None:
            return result
        down = torch.cat([self.lora_A[name].weight for name in rows.names])  # pyright: ignore[reportArgumentType]
        up = torch.cat([self.lora_B[name].weight * self.scaling[name] for name in rows.names], dim=1)
        low = torch.nn.functional.linear(x.to(down.dtype), down) * rows.mask.to(down.dtype)
        return result + torch.nn.functional.linear(low, up).to(result.dtype)


def mix_adapters(model: Any) -> Rows:
    """Let all linear adapters of a peft model be mixed in one pass; returns what chooses them.

    Raises:
        ValueError: The model has adapters of several ranks, or of another kind than linear LoRA.
    """
    layers: list[Any] = [module for module in model.modules() if isinstance(module, LoraLayer)]
    odd = [type(layer).__name__ for layer in layers if not isinstance(layer, LoraLinear)]
    if odd:
        raise ValueError(f"adapters on {odd[0]} layers cannot be mixed in a batch; put LoRA on linear layers only")
    _refuse_more_than_lora(model, layers)
    done = next((layer.rows for layer in layers if isinstance(layer, MixedLinear)), None)
    if done is not None:
        return done
    ranks = {rank for layer in layers for rank in layer.r.values()}
    if len(ranks) != 1:
        raise ValueError(f"the adapters have ranks {sorted(ranks)}; give all the same rank to mix them in a batch")
    rows = Rows(list(layers[0].lora_A), ranks.pop())
    for layer in layers:
        layer.__class__ = MixedLinear  # the parameters and their names stay as they are
        layer.rows = rows
    return rows


def _refuse_more_than_lora(model: Any, layers: Sequence[Any]) -> None:
    """The equation of the module is all that is computed."""
    found = {
        (name, f"{option}={value!r}")
        for name, config in model.peft_config.items()
        for option in _BEYOND
        if (value := getattr(config, option, None))
    }
    found |= {(name, type(variant).__name__) for layer in layers for name, variant in layer.lora_variant.items()}
    for name, what in sorted(found, key=lambda pair: "=" not in pair[1]):
        raise ValueError(f"adapter {name!r} has {what}, and adapters mixed in a batch are plain LoRA; make it without")
