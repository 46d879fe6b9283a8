# pyright: basic
"""Policy-gradient objectives: pure functions on tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

RatioLevel = Literal["token", "sequence", "trajectory"]
LARGEST_WEIGHT = 2.0  # c of truncated importance sampling


@dataclass(frozen=True, slots=True)
class Clip:
    """Where the likelihood ratio rho is clipped: the level of rho, and eps below and above 1."""

    ratio: RatioLevel
    low: float
    high: float


def likelihood_ratio(
    logprobs: torch.Tensor,
    others: torch.Tensor,
    mask: torch.Tensor,
    level: RatioLevel,
    elsewhere: torch.Tensor | float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """pi / pi_other of every token [N, L], or of every text or trajectory as a whole [N, 1]; and their mask.

    `elsewhere` [N, 1] is the log-ratio of the trajectory's other texts, a constant here.
    """
    difference = (logprobs - others) * mask
    if level != "token":
        difference, mask = difference.sum(-1, keepdim=True) + elsewhere, mask.amax(-1, keepdim=True)
    return difference.exp(), mask


def importance_weights(
    trainer: torch.Tensor,
    sampler: torch.Tensor,
    mask: torch.Tensor,
    level: RatioLevel,
    elsewhere: torch.Tensor | float = 0.0,
) -> torch.Tensor:
    """min(pi_trainer / pi_sampler, 2): the weight of the sampler's draws in a mean over the trainer's distribution.

    Truncated importance sampling (Ionides 2008, doi:10.1198/106186008X320456). Without the truncation the weighted mean
    would be unbiased; with it, its variance is bounded.

    Args:
        trainer: log pi of the sampled tokens as the trainer computes it, at the weights that sampled [N, L].
        sampler: log pi of the same tokens as recorded when they were drawn [N, L].
        mask: 1 on sampled tokens [N, L].
        level: A weight for every token, or one for every text, or for its whole trajectory.
        elsewhere: See `likelihood_ratio`.

    Returns:
        Weights [N, L], or [N, 1] for "sequence" and "trajectory", without gradient.
    """
    ratio, _ = likelihood_ratio(trainer.detach(), sampler, mask, level, elsewhere)
    return ratio.clamp(max=LARGEST_WEIGHT)


def clipped_objective(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    mask: torch.Tensor,
    advantages: torch.Tensor,
    clip: Clip,
    importance: torch.Tensor | float = 1.0,
    elsewhere: torch.Tensor | float = 0.0,
) -> torch.Tensor:
    """w min(rho A, clip(rho, 1 - eps_low, 1 + eps_high) A), summed over the tokens of each sequence.

    With `ratio="sequence"` rho is the likelihood ratio of the whole text, as printed in arXiv:2508.04652; with "token"
    it is that of each token, as in PPO and GRPO.

    Args:
        logprobs: log pi [N, L], with gradient.
        old_logprobs: log pi of the same network at the weights that sampled [N, L], without.
        mask: 1 on sampled tokens [N, L].
        advantages: Of texts [N], or of tokens [N, L].
        clip: Level of rho, and eps.
        importance: w, see `importance_weights`.
        elsewhere: See `likelihood_ratio`.

    Returns:
        The objective of every sequence [N]: a sum over its tokens for "token", else one term.
    """
    rho, counted = likelihood_ratio(logprobs, old_logprobs, mask, clip.ratio, elsewhere)
    a = advantages if advantages.dim() == 2 else advantages[:, None]
    objective = torch.minimum(rho * a, rho.clamp(1 - clip.low, 1 + clip.high) * a)
    return (objective * importance * counted).sum(-1)


def count_clipped(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    mask: torch.Tensor,
    clip: Clip,
    elsewhere: torch.Tensor | float = 0.0,
) -> float:
    """How many ratios are outside the clip range; NaN when one is not finite. Arguments as for `clipped_objective`."""
    rho, counted = likelihood_ratio(logprobs.detach(), old_logprobs, mask, clip.ratio, elsewhere)
    if not rho[counted.bool()].isfinite().all():
        return math.nan
    outside = (rho < 1 - clip.low) | (rho > 1 + clip.high)
    return float((outside * counted).sum())


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
