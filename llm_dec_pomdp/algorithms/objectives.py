# pyright: basic
"""Objectives that an updater maximises for completions with advantages; its option `objective` chooses one.

For a completion a after a history h, with rho = pi(a | h) / pi_old(a | h) and the importance weight w,

| objective | maximised | source |
|---|---|---|
| clipped | w min(rho A, clip(rho, 1 - eps_low, 1 + eps_high) A) | PPO, GRPO, MAGRPO arXiv:2508.04652 |
| ... with dual_clip = c | the same, for A < 0 at least w c A | arXiv:1912.09729, equation 5 |
| cispo | w sg(clip(rho, 1 - eps_low, 1 + eps_high)) A log pi | MiniMax-M1 arXiv:2506.13585, equation 4 |

where sg stops the gradient. The ratio rho is of

| ratio | rho | source |
|---|---|---|
| token | each token by itself | GRPO |
| sequence | the whole text: the product over its tokens | arXiv:2508.04652, as printed |
| sequence_mean | the geometric mean over the tokens of a completion | GSPO arXiv:2507.18071, equation 5 |

In the first pass over an update rho is 1: with one epoch and one minibatch, the defaults, all of them have the same
gradient (that of sequence_mean is divided by the length of the completion). They differ from the second optimizer step
on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from ..config import Config, NotNegative, Positive
from .samples import Sample

if TYPE_CHECKING:
    import torch


class Objective(Config, ABC):
    """An objective of completions with advantages; its fields are its options."""

    ratio: Literal["token", "sequence", "sequence_mean"] = "token"
    """Level of the importance ratio: each token, the whole completion (sequence), or the geometric mean over the tokens
    of a completion (sequence_mean, as in GSPO, which clips at about 3e-4)."""
    average: Literal["tokens", "sequences", "constant"] = "tokens"
    """Mean of the loss with ratio="token": over all tokens of an agent (tokens); over completions of the mean over
    their tokens (sequences); or the sum over tokens, divided by the number of completions and by `normaliser`
    (constant, as in Dr. GRPO)."""
    normaliser: Positive | None = None
    """Divisor of the loss of each completion with average="constant", in tokens, e.g. max_new_tokens."""
    importance: Literal["auto", "none", "token", "sequence"] = "auto"
    """Importance weight: the trainer's probability divided by the sampler's, of each token (token) or of each
    completion (sequence); none: no weight; auto: none, unless sampler and trainer can differ. They can differ for a
    language model with parameters of less than 32 bits or under autocast, for completions that another program samples,
    and with staleness. Then auto is token for ratio="token", and sequence for ratio="sequence" and "sequence_mean": the
    weight of a completion is the product of its token ratios. (Their geometric mean over L tokens would correct only
    the L-th root of the difference.) `importance_bound` limits the weights."""
    importance_bound: Annotated[float, Field(gt=1)] = 2.0
    """Largest importance weight."""
    importance_beyond: Literal["bound", "drop"] = "bound"
    """Treatment of an importance weight above the bound: bound replaces it by the bound (truncated importance
    sampling); drop replaces it by 0, and also a weight below 1 / bound (masked importance sampling)."""
    clip_low: NotNegative = 0.2
    """Clip range of the importance ratio: its lower end is 1 - clip_low. TRL's epsilon sets clip_low and clip_high."""
    clip_high: NotNegative = 0.2
    """Clip range of the importance ratio: its upper end is 1 + clip_high."""

    @property
    def clip(self) -> tuple[float, float]:
        """1 - eps_low and 1 + eps_high."""
        return 1 - self.clip_low, 1 + self.clip_high

    def weights(self, samples: Sequence[Sample]) -> list[float]:
        """Return the weight of each completion of an agent, and of its terms, in the mean of the agent's objective."""
        texts = sum(s.weight for s in samples)
        if self.ratio != "token":
            return [s.weight / texts for s in samples]
        tokens = sum(s.weight * len(s.completion.token_ids) for s in samples)
        whole = {"tokens": tokens, "constant": texts * (self.normaliser or 1)}.get(self.average)
        return [s.weight / (whole or texts * len(s.completion.token_ids)) for s in samples]

    @abstractmethod
    def of(
        self,
        log_rho: torch.Tensor,
        counted: torch.Tensor,
        advantages: torch.Tensor,
        importance: torch.Tensor | float,
        logprobs: torch.Tensor,
    ) -> torch.Tensor:
        """Compute the objective of every completion [N], summed over its terms.

        Args:
            log_rho: log of the likelihood ratio to the weights that sampled [N, L] or [N, 1], with gradient.
            counted: Mask of the ratios, of the shape of `log_rho`.
            advantages: Advantages of completions [N], or of tokens [N, L].
            importance: w, see `losses.importance_weights`.
            logprobs: log pi of the tokens [N, L], 0 on padding, with gradient.
        """

    @model_validator(mode="after")
    def _check_options_without_effect(self) -> Objective:
        if self.average != "tokens" and self.ratio != "token":
            raise ValueError(
                f"average is for ratio='token'; with ratio={self.ratio!r} every completion is one term, leave it out"
            )
        if self.importance == "token" and self.ratio != "token":
            raise ValueError(
                f"importance='token' is for tokens, but with ratio={self.ratio!r} a completion is one term; set "
                "importance='sequence' or leave it at 'auto'"
            )
        if (self.average == "constant") != (self.normaliser is not None):
            raise ValueError(
                f"normaliser is {self.normaliser} and average is {self.average!r}; give a normaliser, such as "
                "max_new_tokens, with average='constant' and only then"
            )
        return self


class Clipped(Objective):
    """The clipped objective of PPO and GRPO."""

    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Largest factor by which the ratio multiplies a negative advantage (c); by default there is no limit."""

    def of(
        self,
        log_rho: torch.Tensor,
        counted: torch.Tensor,
        advantages: torch.Tensor,
        importance: torch.Tensor | float,
        logprobs: torch.Tensor,
    ) -> torch.Tensor:
        """See `Objective`."""
        from .losses import clipped_objective

        return clipped_objective(log_rho, counted, advantages, self.clip, importance, self.dual_clip)


class Cispo(Objective):
    """The objective of CISPO: clips the weight of a term and keeps its gradient."""

    clip_low: NotNegative = 1.0
    """Clip range of the importance ratio: its lower end is 1 - clip_low. With 1.0, as in the paper, there is none."""

    def of(
        self,
        log_rho: torch.Tensor,
        counted: torch.Tensor,
        advantages: torch.Tensor,
        importance: torch.Tensor | float,
        logprobs: torch.Tensor,
    ) -> torch.Tensor:
        """See `Objective`."""
        from .losses import cispo_objective

        return cispo_objective(log_rho, advantages, self.clip, importance, logprobs)


OBJECTIVES: Mapping[str, type[Objective]] = {"clipped": Clipped, "cispo": Cispo}


# --- for single learners ----------------------------------------------------------------------------------------------


class OfTrajectories(Clipped):
    """The clipped objective of M-GRPO, also for whole trajectories (arXiv:2511.13288)."""

    ratio: Literal["token", "trajectory"] = "token"
    """Level of the importance ratio: each token, or all completions of a trajectory together (as in the paper)."""
    average: Literal["tokens", "sequences", "constant", "trajectories"] = "tokens"
    """Mean of the loss with ratio="token": tokens, sequences and constant as in other learners; or over trajectories of
    the mean over their tokens (trajectories, as in the paper)."""

    def weights(self, samples: Sequence[Sample]) -> list[float]:
        """See `Objective`; if trajectories are the terms, each has its weight over the sum of all."""
        if self.ratio == "token" and self.average != "trajectories":
            return super().weights(samples)
        total = sum(s.weight for s in {s.trajectory: s for s in samples}.values())
        if self.ratio == "trajectory":
            return [s.weight / total for s in samples]
        lengths: dict[int, int] = {}
        for s in samples:
            lengths[s.trajectory] = lengths.get(s.trajectory, 0) + len(s.completion.token_ids)
        return [s.weight / (total * lengths[s.trajectory]) for s in samples]


class OfPairs(Clipped):
    """Objective for preference pairs: a whole completion is one term, whichever policy sampled it."""

    ratio: Literal["sequence"] = "sequence"
    """Fixed: a whole completion is one term of the loss."""
    importance: Literal["none"] = "none"
    """Fixed: a preference does not depend on the policy that sampled the completions."""


class OfTeachers(Clipped):
    """Objective for given texts (imitation): the ratio is fixed to 1."""

    ratio: Literal["token"] = "token"
    """Fixed: the texts were not sampled, so there is no ratio."""
    importance: Literal["none"] = "none"
    """Fixed: the texts were not sampled."""
