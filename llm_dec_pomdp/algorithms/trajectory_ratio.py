# pyright: basic
"""The ratio of a whole trajectory, as printed in M-GRPO (arXiv:2511.13288): all completions of an agent in one rollout.

    rho = product over the completions of the trajectory of pi(a | h) / pi_old(a | h)                            (ratio)

Each completion is differentiated with the other completions of its trajectory held fixed. Their log-ratio is a
constant, which is computed with the current weights before every optimizer step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from .batches import old_logprobs, recorded_logprobs, texts_of
from .losses import importance_weights, log_ratio
from .samples import Sample
from .term_ratio import TermRatio, UpdaterState


class TrajectoryRatio(TermRatio):
    """Ratio of whole trajectories (`Sample.trajectory`), with importance weights of trajectories or of completions."""

    def __init__(self, updater: UpdaterState) -> None:
        super().__init__(updater)
        self._others: dict[int, float] = {}  # log rho of the trajectory's other completions, by the index of the sample
        self._others_sampled: dict[int, float] = {}  # their log pi_old / pi_sampler

    @property
    def precompute_old_logprobs(self) -> bool:
        """See `TermRatio`; the importance weight of a trajectory needs all of its completions."""
        return super().precompute_old_logprobs or self.importance_level == "trajectory"

    def prepare(self, samples: Sequence[Sample], old: Mapping[int, torch.Tensor]) -> None:
        """Compute the constants of all completions. In the first pass over the samples every ratio is 1."""
        self._others, self._others_sampled = {}, {}
        if not old:
            return
        updater = self.updater

        def log_rho(batch: list[Sample]) -> list[float]:
            logprobs, mask = updater.policy.token_logprobs(texts_of(batch), updater.temperature)
            return ((logprobs - old_logprobs(batch, logprobs, mask, old)) * mask).sum(-1).tolist()

        self._others = sum_of_others(samples, updater.read(samples, log_rho))
        if self.importance_level == "trajectory":
            gaps = {s.index: float(old[s.index].double().sum()) - sum(s.completion.logprobs) for s in samples}
            self._others_sampled = sum_of_others(samples, gaps)

    def __call__(
        self, batch: Sequence[Sample], logprobs: torch.Tensor, old: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | float]:
        """See `TermRatio`; log rho is [N, 1]."""
        c, level = self.updater.options.objective, self.importance_level

        def column(values: Mapping[int, float]) -> torch.Tensor:
            return logprobs.new_tensor([values.get(s.index, 0.0) for s in batch])[:, None]

        log_rho, counted = log_ratio(logprobs, old, mask, "sequence")
        log_rho = log_rho + column(self._others)
        if level == "none":
            return log_rho, counted, 1.0
        gaps, _ = log_ratio(old, recorded_logprobs(batch, mask), mask, "sequence")
        if level == "trajectory":
            gaps = gaps + column(self._others_sampled)
        return log_rho, counted, importance_weights(gaps, c.importance_bound, c.importance_beyond)


def sum_of_others(samples: Sequence[Sample], of_texts: Mapping[int, float]) -> dict[int, float]:
    """Return for each sample, by its index, the sum of these values over the other completions of its trajectory."""
    whole: dict[int, float] = {}
    for s in samples:
        whole[s.trajectory] = whole.get(s.trajectory, 0.0) + of_texts[s.index]
    return {s.index: whole[s.trajectory] - of_texts[s.index] for s in samples}
