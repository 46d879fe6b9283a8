# pyright: basic
"""The likelihood ratio rho and the importance weight w of each term of an objective: a token or a completion.

`updater.Updater` computes its loss with them. Both are ratios of `losses`; `objectives` defines the level of each
option.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import torch

from ..agents.base import Policy
from .batches import recorded_logprobs
from .losses import importance_weights, log_ratio
from .options import UpdaterOptions
from .samples import Sample

T = TypeVar("T")


class UpdaterState(Protocol):
    """The attributes of an updater that ratios depend on; see `updater.Updater`."""

    policy: Policy
    options: UpdaterOptions
    temperature: float
    stale: bool

    def read(self, samples: Sequence[Sample], compute: Callable[[list[Sample]], Sequence[T]]) -> dict[int, T]:
        """See `updater.Updater`."""
        ...


class TermRatio:
    """Ratio and importance weight of tokens and completions.

    Args:
        updater: The updater that computes its loss with them.
    """

    def __init__(self, updater: UpdaterState) -> None:
        self.updater = updater

    @property
    def importance_level(self) -> Any:
        """Level of the importance weights: token, sequence, trajectory, or none."""
        c = self.updater.options.objective
        if c.importance != "auto":
            return c.importance
        if not self.updater.stale and not self.updater.policy.rollout_copy_differs:
            return "none"  # trainer and sampler compute the same log-probabilities
        return "sequence" if c.ratio == "sequence_mean" else c.ratio  # a geometric mean is no importance ratio

    @property
    def precompute_old_logprobs(self) -> bool:
        """Whether log pi_old of all completions must be computed before the first optimizer step."""
        return self.updater.options.minibatches > 1

    def prepare(self, samples: Sequence[Sample], old: Mapping[int, torch.Tensor]) -> None:
        """Prepare for an optimizer step; by default nothing is needed.

        Args:
            samples: All samples of the update that contribute a gradient.
            old: log pi_old of the tokens of completions, by `Sample.index`; empty before the first pass.
        """

    def __call__(
        self, batch: Sequence[Sample], logprobs: torch.Tensor, old: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | float]:
        """Return log rho, its mask, and the importance weights.

        Args:
            batch: N samples.
            logprobs: log pi of their tokens [N, L], with gradient.
            old: log pi_old [N, L].
            mask: 1 on their tokens [N, L].

        Returns:
            log rho and its mask, [N, L] for tokens and [N, 1] for completions; and w of one of these shapes, or 1.0.
        """
        c, level = self.updater.options.objective, self.importance_level
        log_rho, counted = log_ratio(logprobs, old, mask, c.ratio)
        if level == "none":
            return log_rho, counted, 1.0
        gaps, _ = log_ratio(old, recorded_logprobs(batch, mask), mask, level)
        return log_rho, counted, importance_weights(gaps, c.importance_bound, c.importance_beyond)
