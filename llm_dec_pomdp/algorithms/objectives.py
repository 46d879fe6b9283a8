# pyright: basic
"""Objectives that an updater ascends for texts with advantages; `objective` of its options chooses one.

For a text a after a history h, with rho = pi(a | h) / pi_old(a | h) and the importance weight w,

| objective | ascended | source |
|---|---|---|
| clipped | w min(rho A, clip(rho, 1 - eps_low, 1 + eps_high) A) | PPO, GRPO, MAGRPO arXiv:2508.04652 |
| ... with dual_clip = c | the same, for A < 0 at least w c A | arXiv:1912.09729, equation 5 |
| cispo | w sg(clip(rho, 1 - eps_low, 1 + eps_high)) A log pi | MiniMax-M1 arXiv:2506.13585, equation 4 |

where sg holds its argument fixed. rho is that of

| ratio | rho | source |
|---|---|---|
| token | each token by itself | GRPO |
| sequence | the whole text: the product over its tokens | arXiv:2508.04652, as printed |
| sequence_mean | the geometric mean over the tokens of a text | GSPO arXiv:2507.18071, equation 5 |

In the first pass over an update rho is 1: with one epoch and one minibatch, the defaults, all of them have the same
gradient (that of sequence_mean is divided by the length of the text). They differ from the second optimizer step on.
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
    """An objective of texts with advantages; its fields are its options."""

    ratio: Literal["token", "sequence", "sequence_mean"] = "token"
    """Level of the likelihood ratio: of a token, of a whole text (sequence), or its geometric mean over the tokens of a
    text (sequence_mean, as in GSPO, which clips at some 3e-4)."""
    average: Literal["tokens", "sequences", "constant"] = "tokens"
    """With ratio="token": mean over all tokens of an agent; mean over sequences of the mean over their tokens; or sum
    over tokens, divided by the number of texts and by `normaliser` (constant, as in Dr. GRPO)."""
    normaliser: Positive | None = None
    """With average="constant": tokens that a text is divided by whatever its length, e.g. max_new_tokens."""
    importance: Literal["auto", "none", "token", "sequence"] = "auto"
    """Weight of a token, or of a whole text (sequence): the trainer's likelihood over the one the sampler recorded, see
    `importance_bound`; none: everything weighs 1. auto is none, unless sampler and trainer compute differently: a
    language model with parameters of less than 32 bits or under autocast, texts that another program samples, or
    staleness. There auto is token for ratio="token", and sequence for ratio="sequence" and "sequence_mean": the
    importance of a text is the product of its token ratios. Their geometric mean corrects only a part of the difference
    (its L-th root for L tokens)."""
    importance_bound: Annotated[float, Field(gt=1)] = 2.0
    """The largest weight."""
    importance_beyond: Literal["bound", "drop"] = "bound"
    """What becomes of a weight above the bound: it is the bound (truncated importance sampling), or 0, as is one below
    1 / bound (masked importance sampling)."""
    clip_low: NotNegative = 0.2
    """The ratio is clipped below 1 - clip_low. TRL's epsilon sets clip_low and clip_high."""
    clip_high: NotNegative = 0.2
    """The ratio is clipped above 1 + clip_high."""

    @property
    def clip(self) -> tuple[float, float]:
        """1 - eps_low and 1 + eps_high."""
        return 1 - self.clip_low, 1 + self.clip_high

    def weights(self, samples: Sequence[Sample]) -> list[float]:
        """Return the weight of each text of an agent, and of its terms, in the mean of the agent's objective."""
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
        """Compute the objective of every text [N], summed over its terms.

        Args:
            log_rho: log of the likelihood ratio to the weights that sampled [N, L] or [N, 1], with gradient.
            counted: 1 where there is one, as `log_rho`.
            advantages: Of texts [N], or of tokens [N, L].
            importance: w, see `losses.importance_weights`.
            logprobs: log pi of the tokens [N, L], 0 on padding, with gradient.
        """

    @model_validator(mode="after")
    def _check_options_without_effect(self) -> Objective:
        if self.average != "tokens" and self.ratio != "token":
            raise ValueError(
                f"average is for ratio='token'; with ratio={self.ratio!r} every text is one term, leave it out"
            )
        if self.importance == "token" and self.ratio != "token":
            raise ValueError(
                f"importance='token' weighs tokens, and with ratio={self.ratio!r} every text is one term; set "
                "importance='sequence' or leave it at 'auto'"
            )
        if (self.average == "constant") != (self.normaliser is not None):
            raise ValueError(
                f"normaliser is {self.normaliser} and average {self.average!r}; average='constant' divides by a "
                "normaliser, such as max_new_tokens, and nothing else does"
            )
        return self


class Clipped(Objective):
    """The clipped objective of PPO and GRPO."""

    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """c: a text with a negative advantage counts at most c times; left out, as often as its ratio says."""

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
    """Clips the weight of a text and keeps its gradient."""

    clip_low: NotNegative = 1.0
    """The ratio is clipped below 1 - clip_low: with 1.0, as in the paper, not at all."""

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
    """Level of the likelihood ratio: token, or trajectory (all its texts together, as in the paper)."""
    average: Literal["tokens", "sequences", "constant", "trajectories"] = "tokens"
    """With ratio="token": mean over all tokens of an agent; over sequences; by a constant (as in other learners); or
    mean over trajectories of the mean over their tokens (trajectories, as in the paper)."""

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
    """Objective for pairs of texts: a whole text is one term, from whichever policy it was sampled."""

    ratio: Literal["sequence"] = "sequence"
    """A whole text is one term of the loss."""
    importance: Literal["none"] = "none"
    """A preference does not depend on the policy that sampled the texts."""


class OfTeachers(Clipped):
    """Objective for supervised texts (imitation): the ratio is fixed to 1."""

    ratio: Literal["token"] = "token"
    """The texts were not sampled, so there is no ratio."""
    importance: Literal["none"] = "none"
    """The texts were not sampled."""
