# pyright: basic
"""A policy with a causal language model, as engines, critics and packed rows use it."""

from __future__ import annotations

import contextlib
import functools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from ..base import Policy
from ..oom import BatchSize


class ModelPolicy(Policy):
    """A policy that computes with a causal language model.

    Attributes:
        model: The causal language model, or a peft model with one adapter per agent.
        tokenizer: Its tokenizer.
        adapters: Adapter name by agent; None when all agents use the same weights.
        batch_rows: Sequences that are sampled at once.
        compute_dtype: Mixed precision: the type in which products are computed; None: the type of the weights.
        gradient_checkpointing: Activations are computed again in the backward pass.
        packed: Texts of one prompt share a row.
        pad_id: Token id of padding.
        tokenless: Ids of the output layer that have no token [K]; None where there are none.
    """

    model: Any
    tokenizer: Any
    adapters: dict[str, str] | None
    batch_rows: BatchSize
    compute_dtype: torch.dtype | None
    gradient_checkpointing: bool
    packed: bool
    pad_id: int
    tokenless: torch.Tensor | None

    @abstractmethod
    def raw_text(self, ids: Sequence[int]) -> str:
        """Return the text of sampled ids, without special tokens and the one that ends it."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.model.parameters()).device

    @functools.cached_property
    def processor_load(self) -> int:
        """Number of parameters, by which models share the processor's cores; 0 on an accelerator."""
        return sum(p.numel() for p in self.model.parameters()) if self.accelerator is None else 0

    @functools.cached_property
    def accelerator(self) -> str | None:
        """The accelerator it computes on, e.g. "cuda:1"; None on the processor."""
        return None if self.device.type == "cpu" else str(self.device)

    def precision(self) -> Any:
        """Return a context in which the model computes in `compute_dtype`."""
        if self.compute_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.compute_dtype)
