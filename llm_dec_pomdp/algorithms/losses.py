# pyright: basic
"""Policy-gradient objectives: pure functions on tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch

RatioLevel = Literal["token", "sequence"]
LARGEST_WEIGHT = 2.0  # c of truncated importance sampling


class Loss(NamedTuple):
    """The loss of some texts.

    Attributes:
        value: With gradient; each sample counts by its `weight`.
        terms: Its parts, as numbers: sums over texts, ratios or tokens.
        logprobs: Of the tokens of each text, without gradient, where they were computed.
    """

    value: torch.Tensor
    terms: Mapping[str, float]
    logprobs: Sequence[torch.Tensor] = ()


def log_ratio(
    logprobs: torch.Tensor, others: torch.Tensor, mask: torch.Tensor, level: RatioLevel
) -> tuple[torch.Tensor, torch.Tensor]:
    """log pi / pi_other of every token [N, L], or of every text as a whole [N, 1]; and the mask of these."""
    difference = (logprobs - others) * mask
    if level == "token":
        return difference, mask
    return difference.sum(-1, keepdim=True), mask.amax(-1, keepdim=True)


def importance_weights(
    trainer: torch.Tensor, sampler: torch.Tensor, mask: torch.Tensor, level: RatioLevel
) -> torch.Tensor:
    """min(pi_trainer / pi_sampler, 2): the weight of the sampler's draws in a mean over the trainer's distribution.

    Truncated importance sampling (Ionides 2008, doi:10.1198/106186008X320456). Without the truncation the weighted mean
    would be unbiased; with it, its variance is bounded.

    Args:
        trainer: log pi of the sampled tokens as the trainer computes it, at the weights that sampled [N, L].
        sampler: log pi of the same tokens as recorded when they were drawn [N, L].
        mask: 1 on sampled tokens [N, L].
        level: A weight for every token, or one for every text.

    Returns:
        Weights [N, L], or [N, 1] for "sequence", without gradient.
    """
    return truncated_ratio(log_ratio(trainer.detach(), sampler, mask, level)[0])


def truncated_ratio(log_ratios: torch.Tensor) -> torch.Tensor:
    """Importance weights of log-ratios."""
    return log_ratios.exp().clamp(max=LARGEST_WEIGHT)


def clipped_objective(
    log_rho: torch.Tensor,
    counted: torch.Tensor,
    advantages: torch.Tensor,
    clip: tuple[float, float],
    importance: torch.Tensor | float = 1.0,
) -> torch.Tensor:
    """w min(rho A, clip(rho, 1 - eps_low, 1 + eps_high) A), summed over the tokens of each sequence.

    With a ratio of whole texts it is as printed in arXiv:2508.04652; with one of tokens as in PPO and GRPO.

    Args:
        log_rho: log of the likelihood ratio to the weights that sampled [N, L] or [N, 1], with gradient.
        counted: 1 where there is one, as `log_rho`.
        advantages: Of texts [N], or of tokens [N, L].
        clip: 1 - eps_low and 1 + eps_high.
        importance: w, see `importance_weights`.

    Returns:
        The objective of every sequence [N].
    """
    rho, (low, high) = log_rho.exp(), clip
    a = advantages if advantages.dim() == 2 else advantages[:, None]
    clipped = torch.minimum(rho * a, rho.clamp(low, high) * a)  # (objective), arXiv:2508.04652
    return (clipped * importance * counted).sum(-1)


def count_clipped(log_rho: torch.Tensor, counted: torch.Tensor, clip: tuple[float, float]) -> float:
    """How many ratios are outside the clip range; NaN when one is not finite. Arguments as for `clipped_objective`."""
    rho = log_rho.detach().exp()
    if not rho[counted.bool()].isfinite().all():
        return math.nan
    return float((((rho < clip[0]) | (rho > clip[1])) * counted).sum())


def value_loss(values: torch.Tensor, targets: torch.Tensor, old: torch.Tensor, clip: float) -> torch.Tensor:
    """max((V - y)^2, (V_old + clip(V - V_old, -c, c) - y)^2): flat where V moved further than c towards y.

    Args:
        values: V [N], with gradient.
        targets: y [N].
        old: V before the update [N].
        clip: c, in the same units.

    Returns:
        The loss of every value [N].
    """
    near = old + (values - old).clamp(-clip, clip)
    return torch.maximum((values - targets) ** 2, (near - targets) ** 2)


def kl_k3(logprobs: torch.Tensor, reference: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """KL(pi || pi_ref), estimated token by token from samples of pi: r - 1 - log r with r = pi_ref / pi.

    The estimator k3 of http://joschu.net/blog/kl-approx.html: never negative, and 0 where the policies agree. As in
    GRPO it is differentiated with the samples held fixed, which on average gives the gradient of KL(pi_ref || pi).

    Args:
        logprobs: log pi of the sampled tokens [N, L], with gradient.
        reference: log pi_ref of the same tokens [N, L], without.
        mask: 1 on sampled tokens [N, L].

    Returns:
        The estimate of every sequence [N], summed over its tokens.
    """
    log_r = (reference - logprobs) * mask
    return (log_r.expm1() - log_r).sum(-1)
