# pyright: basic
"""Policy-gradient objectives: pure functions on tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch

RatioLevel = Literal["token", "sequence", "sequence_mean"]


class Loss(NamedTuple):
    """The loss of a batch of completions.

    Attributes:
        value: The loss, with gradient; each sample counts by its `loss_weight`.
        terms: Its parts as numbers: sums over completions, ratios or tokens.
        logprobs: log pi of the tokens of each completion, without gradient; empty if they were not computed.
    """

    value: torch.Tensor
    terms: Mapping[str, float]
    logprobs: Sequence[torch.Tensor] = ()


def log_ratio(
    logprobs: torch.Tensor, others: torch.Tensor, mask: torch.Tensor, level: RatioLevel
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute log pi / pi_other of tokens or completions.

    Args:
        logprobs: log pi of the tokens [N, L].
        others: log pi_other of the same tokens [N, L].
        mask: 1 on tokens [N, L], 0 on padding.
        level: "token"; "sequence", the sum over a completion; or "sequence_mean", its mean over the tokens.

    Returns:
        The log-ratios and their mask, [N, L] for tokens and [N, 1] for completions.
    """
    difference = (logprobs - others) * mask
    if level == "token":
        return difference, mask
    whole = difference.sum(-1, keepdim=True)
    if level == "sequence_mean":  # GSPO, arXiv:2507.18071
        whole = whole / mask.sum(-1, keepdim=True).clamp(min=1)
    return whole, mask.amax(-1, keepdim=True)


def importance_weights(
    log_ratios: torch.Tensor, bound: float, beyond: Literal["bound", "drop"] = "bound"
) -> torch.Tensor:
    """Compute the weights of samples in a mean over the trainer's distribution, with u = pi_trainer / pi_sampler.

    | beyond | weight | source |
    |---|---|---|
    | bound | min(u, c) | truncated importance sampling, Ionides 2008, doi:10.1198/106186008X320456 |
    | drop | u where 1 / c <= u <= c, else 0 | masked importance sampling: IcePop, arXiv:2510.18855 |

    Without truncation or masking the weighted mean would be unbiased. With one of them its variance is bounded.

    Args:
        log_ratios: log u of tokens or of completions, at the weights that sampled.
        bound: c.
        beyond: Treatment of larger weights, see the table.

    Returns:
        Weights of the same shape, without gradient.
    """
    ratios = log_ratios.detach().exp()
    if beyond == "drop":
        return ratios * ((ratios <= bound) & (ratios * bound >= 1))
    return ratios.clamp(max=bound)


def clipped_objective(
    log_rho: torch.Tensor,
    counted: torch.Tensor,
    advantages: torch.Tensor,
    clip: tuple[float, float],
    importance: torch.Tensor | float = 1.0,
    dual_clip: float | None = None,
) -> torch.Tensor:
    """Compute w min(rho A, clip(rho, 1 - eps_low, 1 + eps_high) A), summed over the tokens of each sequence.

    With ratios of whole completions this is the objective printed in arXiv:2508.04652; with ratios of tokens it is that
    of PPO and GRPO. With `dual_clip` c, it is at least w c A for negative A (arXiv:1912.09729).

    Args:
        log_rho: log of the likelihood ratio to the weights that sampled [N, L] or [N, 1], with gradient.
        counted: Mask of the ratios, of the shape of `log_rho`.
        advantages: Advantages of completions [N], or of tokens [N, L].
        clip: 1 - eps_low and 1 + eps_high.
        importance: w, see `importance_weights`.
        dual_clip: c, or None.

    Returns:
        The objective of every sequence [N].
    """
    rho, (low, high) = log_rho.exp(), clip
    a = _by_term(advantages)
    clipped = torch.minimum(rho * a, rho.clamp(low, high) * a)  # (objective), arXiv:2508.04652
    if dual_clip is not None:
        clipped = torch.where(a < 0, torch.maximum(clipped, dual_clip * a), clipped)
    return (clipped * importance * counted).sum(-1)


def cispo_objective(
    log_rho: torch.Tensor,
    advantages: torch.Tensor,
    clip: tuple[float, float],
    importance: torch.Tensor | float,
    logprobs: torch.Tensor,
) -> torch.Tensor:
    """Compute w sg(clip(rho, 1 - eps_low, 1 + eps_high)) A log pi, summed over each sequence (arXiv:2506.13585).

    Args:
        log_rho: log of the likelihood ratio to the weights that sampled [N, L] or [N, 1].
        advantages: Advantages of completions [N], or of tokens [N, L].
        clip: 1 - eps_low and 1 + eps_high.
        importance: w, see `importance_weights`.
        logprobs: log pi of the tokens [N, L], 0 on padding, with gradient.

    Returns:
        The objective of every sequence [N].
    """
    return (log_rho.detach().exp().clamp(*clip) * _by_term(advantages) * importance * logprobs).sum(-1)


def _by_term(advantages: torch.Tensor) -> torch.Tensor:
    return advantages if advantages.dim() == 2 else advantages[:, None]


def count_clipped(log_rho: torch.Tensor, counted: torch.Tensor, clip: tuple[float, float]) -> float:
    """Count the ratios outside the clip range; NaN if one is not finite. Arguments as for `clipped_objective`."""
    rho = log_rho.detach().exp()
    if not rho[counted.bool()].isfinite().all():
        return math.nan
    return float((((rho < clip[0]) | (rho > clip[1])) * counted).sum())


def value_loss(values: torch.Tensor, targets: torch.Tensor, old: torch.Tensor, clip: float) -> torch.Tensor:
    """Compute max((V - y)^2, (V_old + clip(V - V_old, -c, c) - y)^2): flat where V changed by more than c towards y.

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


def kl_k3(
    logprobs: torch.Tensor, reference: torch.Tensor, mask: torch.Tensor, log_rho: torch.Tensor | None = None
) -> torch.Tensor:
    """Estimate KL(pi || pi_ref) token by token from samples of pi: r - 1 - log r with r = pi_ref / pi.

    The estimator k3 of http://joschu.net/blog/kl-approx.html: never negative, and 0 where the policies agree. As in
    GRPO it is differentiated with the samples held fixed, which on average gives the gradient of KL(pi_ref || pi).
    Multiplied by rho it is unbiased for samples of pi_old, and its gradient is an unbiased estimate of the gradient of
    KL(pi || pi_ref) (arXiv:2512.02556).

    Args:
        logprobs: log pi of the sampled tokens [N, L], with gradient.
        reference: log pi_ref of the same tokens [N, L], without gradient.
        mask: 1 on sampled tokens [N, L].
        log_rho: log pi / pi_old of the tokens, with gradient; left out, rho is 1.

    Returns:
        The estimate of every sequence [N], summed over its tokens.
    """
    log_r = (reference - logprobs) * mask
    k3 = log_r.expm1() - log_r
    return (k3 if log_rho is None else k3 * log_rho.exp()).sum(-1)
