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
    """How the weights of a policy move."""

    learning_rate: NotNegative | None = None
    """Learning rate of AdamW; left out, what suits the policy: 0.3 for tables, 5e-4 for adapters and models of less
    than 10 million weights, 1e-5 for all weights of larger ones (the paper trains 1.7B-3B models at 5e-6 to 2e-5)."""
    schedule: Schedule = "constant"
    """How the learning rate falls: constant, or linear or cosine, which reach 0 with the last update."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Updates over which the learning rate rises to its full value."""
    horizon: Annotated[int, Field(ge=0)] = 0
    """Updates after which a linear or cosine schedule reaches 0; 0: all updates of the run, or of the stage."""
    objective: Objective = Clipped()
    """What is ascended: the clipped objective (clipped), or one that clips weights and keeps gradients (cispo). Its
    options stand beside it, those of clipped where it is left out: ratio = "sequence"."""
    truncated: Literal["learn", "mask"] = "learn"
    """Texts that the token limit ended: learn from them, or mask them, which leaves them in the baseline and takes them
    out of the loss and its mean."""
    beta: NotNegative = 0.0
    """Weight of the KL term to the reference: the policy as it is when the learner, or its stage, begins."""
    weigh_kl: bool = False
    """Multiply each token's KL by the ratio to the weights that sampled, so that it and its gradient stay unbiased in
    later passes (DeepSeek-V3.2, arXiv:2512.02556)."""
    entropy: NotNegative = 0.0
    """Weight of the entropy bonus."""
    epochs: Positive = 1
    """Passes over the samples of an update."""
    minibatches: Positive = 1
    """Optimizer steps per pass, each on a part of every agent's samples; texts of one prompt stay together."""
    micro_batch: Positive = 16
    """Sequences per forward pass; changes memory and speed, not the result. Halved when the device has too little."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Gradients are scaled down to this norm."""
    weight_decay: NotNegative = 0.0
    """AdamW's decoupled weight decay."""
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
            "smaller warmup, or a run or a horizon that is longer"
        )


class TurnOptions(UpdaterOptions):
    """Options of learners that credit each turn by itself, and all of `UpdaterOptions`."""

    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount between turns."""


class MAGRPOConfig(TurnOptions):
    """Options of MAGRPO and its relatives: a credit, and all of `TurnOptions`."""

    credit: Credit = JointCredit()
    """Who gets credit for a return: all agents alike (joint); each text, by its mean over all that the others said
    (crossed); each agent, by comparing its text with its texts in the group's other trajectories while the others say
    the same (counterfactual); or each message, by comparing it with others drawn from the same history (message; C3,
    arXiv:2603.06859). Where it is given by its name, its options stand beside it: credit = "crossed", tree = true."""
    overlong: Count = 0
    """Tokens before the token limit of a text over which its agent loses more and more of `overlong_penalty` (DAPO,
    arXiv:2503.14476); 0: none loses anything. The penalty is no reward of the environment: a shuffled-reward control
    has it too, for its own texts."""
    overlong_penalty: NotNegative = 1.0
    """What a text at the limit costs its agent, in units of the reward."""
    kinds: ClassVar[Kinds] = {"objective": OBJECTIVES, "credit": CREDITS}

    @property
    def least_group_size(self) -> int:  # type: ignore[override]  # follows from the credit
        """Fewest episodes per task to learn anything from."""
        return self.credit.least_group_size


class MGRPOConfig(UpdaterOptions):
    """Options of M-GRPO: those of credit, and all of `UpdaterOptions`."""

    objective: Objective = OfTrajectories()
    alignment: Alignment = "duplicate_drop"
    """How rollouts with different numbers of invocations are made comparable, see `algorithms.mgrpo`."""
    d: Positive | None = None
    """Invocations per rollout and kind after alignment; left out: the 0.99 quantile over the run so far."""
    group_by: GroupBy = "query"
    """Invocations that share a baseline: those of the query, of the query and kind, or of the query and place."""
    advantage: Literal["std", "mean"] = "std"
    """Deviations from the mean, divided by the standard deviation (std) or not (mean)."""
    train: Sides = ["main", "sub"]
    """Whose policies learn; the others stay as they are."""
    least_group_size: ClassVar[int] = 2
    kinds: ClassVar[Kinds] = {"objective": {"clipped": OfTrajectories}}
