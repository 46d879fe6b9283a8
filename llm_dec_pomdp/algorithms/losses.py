# pyright: basic
"""Policy-gradient objectives: pure functions on tensors."""

from __future__ import annotations

from typing import Literal

import torch

RatioLevel = Literal["token", "sequence"]


def clipped_objective(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    mask: torch.Tensor,
    advantages: torch.Tensor,
    *,
    ratio: RatioLevel,
    clip_low: float,
    clip_high: float,
) -> torch.Tensor:
    """min(rho A, clip(rho, 1 - eps_low, 1 + eps_high) A), summed over the tokens of each sequence.

    With `ratio="sequence"` rho is the likelihood ratio of the whole text, as printed in arXiv:2508.04652; with "token"
    it is that of each token, as in PPO and GRPO.

    Args:
        logprobs: log pi [N, L], with gradient.
        old_logprobs: log pi of the sampling policy [N, L], without.
        mask: 1 on sampled tokens [N, L].
        advantages: [N].
        ratio: Level of rho.
        clip_low: eps below 1.
        clip_high: eps above 1.

    Returns:
        The objective of every sequence [N]: a sum over its tokens for "token", one term for "sequence".
    """
    difference = (logprobs - old_logprobs) * mask
    if ratio == "sequence":
        rho = difference.sum(-1).exp()
        return torch.minimum(rho * advantages, rho.clamp(1 - clip_low, 1 + clip_high) * advantages)
    rho = difference.exp()
    a = advantages[:, None]
    return (torch.minimum(rho * a, rho.clamp(1 - clip_low, 1 + clip_high) * a) * mask).sum(-1)


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
