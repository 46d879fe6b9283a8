# pyright: basic
"""What was sampled under which log-probabilities: those that the sampler recorded, and those that the trainer computes.

The two are of the same weights and still differ where they are computed otherwise: numbers of 16 bits round by the
shape of the batch, and another program has other kernels. `MAGRPOConfig.importance` says what is done about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from ..agents.base import MismatchedPolicy, TrainablePolicy
from .losses import RatioLevel
from .options import MAGRPOConfig
from .samples import Sample


def recall(
    old: dict[int, torch.Tensor], batch: Sequence[Sample], logprobs: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """log pi_old of a batch [N, L]: what was noted under the samples' numbers, which is done now where it is new."""
    rows = mask.bool()
    now = logprobs.detach()
    lengths = [len(s.completion.token_ids) for s in batch]
    for sample, mine in zip(batch, now[rows].split(lengths), strict=True):
        old.setdefault(sample.number, mine)
    before = now.clone()
    before[rows] = torch.cat([old[sample.number] for sample in batch])
    return before


def recorded(batch: Sequence[Sample], mask: torch.Tensor) -> torch.Tensor:
    """The sampler's log-probabilities of a batch [N, L], where the mask says that its tokens are."""
    logprobs = torch.zeros_like(mask)
    logprobs[mask.bool()] = logprobs.new_tensor([p for s in batch for p in s.completion.logprobs])
    return logprobs


def importance_level(config: MAGRPOConfig, policy: TrainablePolicy) -> RatioLevel | Literal["none"]:
    """At which level texts of this policy are weighed; see `MAGRPOConfig.importance`."""
    if config.importance != "auto":
        return config.importance
    return config.ratio if isinstance(policy, MismatchedPolicy) and policy.sampler_differs else "none"
