# pyright: basic
"""The ratio of a whole trajectory, as printed in M-GRPO (arXiv:2511.13288): all texts of an agent in one rollout.

    rho = product over the texts of the trajectory of pi(a | h) / pi_old(a | h)                                  (ratio)

A text is differentiated with the others of its trajectory held fixed: each is read in a pass of its own, and their
log-ratio is a constant that is noted at the present weights before every optimizer step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from .base import Metrics
from .batches import old_logprobs, recorded_logprobs, texts_of
from .losses import importance_weights, log_ratio
from .samples import Sample
from .updater import Updater


class TrajectoryUpdater(Updater):
    """An `Updater` of texts whose samples say to which `trajectory` they belong; one trajectory is one term."""

    def _read_first(self, samples: list[Sample]) -> dict[int, torch.Tensor]:
        """See `Updater`; the importance of a trajectory needs all of its texts too."""
        self._samples = samples
        self._elsewhere: dict[int, float] = {}  # log rho of the trajectory's other texts, by the number of the sample
        self._drawn_elsewhere: dict[int, float] = {}  # log pi_old / pi_sampler of these texts
        if self._importance_level != "trajectory":
            return super()._read_first(samples)
        old = self.read(samples, self._logprobs_of)
        gaps = {s.number: float(old[s.number].double().sum()) - sum(s.completion.logprobs) for s in samples}
        self._drawn_elsewhere = of_others(samples, gaps)
        return old

    def _gradient(self, samples: list[Sample], size: int) -> tuple[Metrics, dict[int, torch.Tensor]]:
        """See `Updater`."""
        if self._old:  # in the first pass over what was sampled all ratios are 1
            self._elsewhere = of_others(self._samples, self.read(self._samples, self._log_rho))
        return super()._gradient(samples, size)

    def _log_rho(self, batch: list[Sample]) -> list[float]:
        """log rho of each text as a whole."""
        logprobs, mask = self.policy.token_logprobs(texts_of(batch), self.temperature)
        return ((logprobs - old_logprobs(batch, logprobs, mask, self._old)) * mask).sum(-1).tolist()

    def _log_ratio(
        self, batch: list[Sample], logprobs: torch.Tensor, others: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Updater`; with the other texts of the trajectory (ratio)."""
        log_rho, counted = log_ratio(logprobs, others, mask, "sequence")
        return log_rho + _column(batch, self._elsewhere, logprobs), counted

    def _importance(self, batch: list[Sample], old: torch.Tensor, mask: torch.Tensor) -> torch.Tensor | float:
        """See `Updater`; at its level, which may be that of a text."""
        if self._importance_level != "trajectory":
            return super()._importance(batch, old, mask)
        gap, _ = log_ratio(old, recorded_logprobs(batch, mask), mask, "sequence")
        gap, c = gap + _column(batch, self._drawn_elsewhere, old), self.options.objective
        return importance_weights(gap, c.importance_bound, c.importance_beyond)


def of_others(samples: Sequence[Sample], of_texts: Mapping[int, float]) -> dict[int, float]:
    """By sample, the sum of these values over the other texts of its trajectory."""
    whole: dict[int, float] = {}
    for s in samples:
        whole[s.trajectory] = whole.get(s.trajectory, 0.0) + of_texts[s.number]
    return {s.number: whole[s.trajectory] - of_texts[s.number] for s in samples}


def _column(samples: Sequence[Sample], values: Mapping[int, float], like: torch.Tensor) -> torch.Tensor:
    return like.new_tensor([values.get(s.number, 0.0) for s in samples])[:, None]
