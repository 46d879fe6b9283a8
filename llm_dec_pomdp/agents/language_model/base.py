# pyright: basic
"""The interface of a policy with a causal language model, for engines, critics and packing."""

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
    """Base of policies with a causal language model.

    Attributes:
        model: The causal language model, or a peft model with one adapter per agent.
        tokenizer: Its tokenizer.
        adapters: Adapter name by agent; None if all agents use the same weights.
        batch_rows: Number of sequences that are sampled at once.
        compute_dtype: Mixed precision: the type of products; None: the type of the weights.
        gradient_checkpointing: Whether activations are recomputed in the backward pass.
        packed: Whether completions of one prompt share a row.
        pad_id: Token id of padding.
        tokenless: Ids of the output layer without a token [K]; None if there are none.
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
        """Return the text of sampled ids, without special tokens and the end token."""

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""
        return next(self.model.parameters()).device

    @functools.cached_property
    def processor_load(self) -> int:
        """Return the number of parameters, which predicts the CPU time; 0 on an accelerator."""
        return sum(p.numel() for p in self.model.parameters()) if self.accelerator is None else 0

    @functools.cached_property
    def accelerator(self) -> str | None:
        """Return the accelerator that it computes on, e.g. "cuda:1"; None for the CPU."""
        return None if self.device.type == "cpu" else str(self.device)

    def precision(self) -> Any:
        """Return a context in which the model computes in `compute_dtype`."""
        if self.compute_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.compute_dtype)
