"""Options of the policy-gradient learners."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from ..config import Count, Kinds, NotNegative, Positive
from .base import Options
from .credit import CREDITS, Credit, JointCredit
from .objectives import OBJECTIVES, Clipped, Objective, OfTrajectories
from .schedules import Schedule

Alignment = Literal["duplicate_drop", "mask", "weight", "none"]
GroupBy = Literal["query", "kind", "place"]
Sides = Annotated[list[Literal["main", "sub"]], Field(min_length=1)]


class UpdaterOptions(Options):
    """Options of the policy update: objective and optimizer."""

    learning_rate: NotNegative | None = None
    """Learning rate of AdamW; by default 0.3 for tables, 5e-4 for adapters and models of less than 10 million weights,
    1e-5 for all weights of larger models. arXiv:2508.04652 trains 1.7B-3B models at 5e-6 to 2e-5."""
    schedule: Schedule = "constant"
    """Schedule of the learning rate: constant, or linear or cosine, which fall to 0 at the last update."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Number of first updates over which the learning rate rises linearly to its full value."""
    horizon: Annotated[int, Field(ge=0)] = 0
    """Number of updates after which a linear or cosine schedule reaches 0; 0 means all updates of the run or stage."""
    objective: Objective = Clipped()
    """Objective that is maximised: clipped (PPO, GRPO), or cispo, which clips weights and keeps gradients. Its options
    are given at the same level, e.g. ratio = "sequence"; without objective they are options of clipped."""
    truncated: Literal["learn", "mask"] = "learn"
    """Treatment of completions that the token limit ended: learn trains on them; mask removes them from the loss and
    its mean, but not from the baseline."""
    beta: NotNegative = 0.0
    """Weight of the KL divergence to the reference, which is the policy at the start of the learner or of its stage."""
    weigh_kl: bool = False
    """Multiply the KL term of each token by its importance ratio, so that the term and its gradient stay unbiased in
    later passes (DeepSeek-V3.2, arXiv:2512.02556)."""
    entropy: NotNegative = 0.0
    """Weight of the entropy bonus."""
    epochs: Positive = 1
    """Passes over the samples of an update."""
    minibatches: Positive = 1
    """Optimizer steps per pass, each on a part of every agent's samples. Completions of one prompt stay together."""
    micro_batch: Positive = 16
    """Completions per forward pass; changes memory and speed, not the result. It is halved when the device runs out of
    memory."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Largest norm of a gradient; larger ones are scaled down to it."""
    weight_decay: NotNegative = 0.0
    """Decoupled weight decay of AdamW."""
    kinds: ClassVar[Kinds] = {"objective": OBJECTIVES}

    @model_validator(mode="after")
    def _check_steps_without_effect(self) -> UpdaterOptions:
        if self.horizon:
            check_warmup(self, self.horizon)
        if self.schedule == "constant" and self.horizon:
            raise ValueError(f"horizon={self.horizon} is for schedule='linear' or 'cosine'; leave it out")
        return self


def check_warmup(options: UpdaterOptions, updates: int) -> None:
    """Raise ValueError if the warmup takes all updates of a falling learning rate."""
    last = options.horizon or updates
    if options.schedule != "constant" and last <= options.warmup:
        raise ValueError(
            f"schedule={options.schedule!r} falls from update {options.warmup} (warmup) to update {last}; give a "
            "smaller warmup, a longer run or a longer horizon"
        )


class TurnOptions(UpdaterOptions):
    """Options of learners with an advantage for each turn, and all of `UpdaterOptions`."""

    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount between turns."""


class MAGRPOConfig(TurnOptions):
    """Options of MAGRPO and its relatives: credit assignment, and all of `TurnOptions`."""

    credit: Credit = JointCredit()
    """Credit assignment: joint (all completions of an episode share its advantage), crossed (a completion has its mean
    return over all completions of the teammates), counterfactual (a completion is compared with the agent's other
    completions, while teammates act the same), message (a completion is compared with others sampled from the same
    history; C3, arXiv:2603.06859), or call (a completion of an agent with tools is compared with a turn without a
    call). Its options are given at the same level: credit = "crossed", tree = true."""
    overlong: Count = 0
    """Number of tokens before the token limit over which the penalty `overlong_penalty` rises linearly (DAPO,
    arXiv:2503.14476); 0 means no penalty. The penalty is not a reward of the environment, so it also applies in a
    shuffled-reward control, to the completions of the control."""
    overlong_penalty: NotNegative = 1.0
    """Penalty of a completion at the token limit, in units of the reward."""
    kinds: ClassVar[Kinds] = {"objective": OBJECTIVES, "credit": CREDITS}

    @property
    def least_group_size(self) -> int:  # type: ignore[override]  # follows from the credit
        """Smallest useful number of episodes per task."""
        return self.credit.least_group_size


class MGRPOConfig(UpdaterOptions):
    """Options of M-GRPO: credit assignment, and all of `UpdaterOptions`."""

    objective: Objective = OfTrajectories()
    alignment: Alignment = "duplicate_drop"
    """Method that makes rollouts with different numbers of invocations comparable, see `algorithms.mgrpo`."""
    d: Positive | None = None
    """Invocations per rollout and kind of sub-agent after alignment; by default the 0.99 quantile over the run so
    far."""
    group_by: GroupBy = "query"
    """Invocations that share a baseline: those of the same query (query), also with the same role (kind), or also with
    the same place in the rollout (place: first, second, ... call)."""
    advantage: Literal["std", "mean"] = "std"
    """Scale of the advantage: deviations from the mean are divided by the standard deviation (std) or not (mean)."""
    train: Sides = ["main", "sub"]
    """Policies that are trained: those of main agents (main), of sub-agents (sub), or both. Others stay fixed."""
    least_group_size: ClassVar[int] = 2
    kinds: ClassVar[Kinds] = {"objective": {"clipped": OfTrajectories}}
