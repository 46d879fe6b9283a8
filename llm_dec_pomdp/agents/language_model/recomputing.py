# pyright: basic
"""Gradient checkpointing (arXiv:1604.06174): layers keep their inputs, and the backward pass recomputes activations.

transformers supports this only in training mode, with dropout. Here it works in evaluation mode, and the backward pass
uses the adapters of the forward pass (`adapters.Rows`), even if other batches came in between.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from .adapters import Rows


@contextlib.contextmanager
def recomputed(model: Any) -> Generator[None]:
    """Let the layers of a model keep only their inputs, within this context; they accept no cache of keys and values.

    Raises:
        ValueError: The model's layers do not support gradient checkpointing.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer  # imported here, since it takes seconds

    layers: list[Any] = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ValueError(f"{type(model).__name__} does not support gradient_checkpointing; leave it out")
    for layer in layers:
        layer.forward = functools.partial(_keep_inputs, getattr(model, "mixed_rows", None), layer.forward)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # restores the method of its class


def _keep_inputs(rows: Rows | None, layer: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    """Return the output of a layer, which the backward pass recomputes with the same adapters."""
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
