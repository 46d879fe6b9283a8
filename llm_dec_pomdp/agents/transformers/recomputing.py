# pyright: basic
"""Gradient checkpointing (arXiv:1604.06174): layers keep their inputs alone and compute the rest again on the way back.

The layers of transformers do it in training mode alone, in which some of them drop out. Ours do it in evaluation mode,
and the adapters of a batch (`adapters.Rows`) are those of the way forward although other batches may have come in
between.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

if TYPE_CHECKING:
    from .adapters import Rows


@contextlib.contextmanager
def recomputed(model: Any) -> Generator[None]:
    """Within, the layers of a model of transformers keep their inputs alone. They take no cache of keys and values.

    Raises:
        ValueError: The model has no layers that can do it.
    """
    layers: list[Any] = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no layers for gradient checkpointing; switch it off")
    for layer in layers:
        layer.forward = functools.partial(_keep_inputs, getattr(model, "mixed_rows", None), layer.forward)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # and the one of its class is there again


def _keep_inputs(rows: Rows | None, layer: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    """The output of a layer, which is called once more on the way back, with the same adapters."""
    chosen = (rows.mask, rows.names) if rows is not None else (None, [])

    def run(*inputs: Any) -> Any:
        if rows is None:
            return layer(*inputs, **options)
        before = rows.mask, rows.names
        rows.mask, rows.names = chosen
        try:
            return layer(*inputs, **options)
        finally:
            rows.mask, rows.names = before

    return checkpoint(run, *inputs, use_reentrant=False, preserve_rng_state=False)
