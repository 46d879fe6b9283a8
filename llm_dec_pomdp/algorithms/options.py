"""Options of the policy-gradient learners."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from ..config import Config, Count, NotNegative, Positive
from .advantages import Kind
from .schedules import Schedule

Alignment = Literal["duplicate_drop", "mask", "weight", "none"]
GroupBy = Literal["query", "kind", "place"]
Sides = Annotated[list[Literal["main", "sub"]], Field(min_length=1)]


class UpdaterOptions(Config):
    """How the weights of a policy move."""

    learning_rate: NotNegative | None = None
    """AdamW's. Left out, what suits the policy: 0.3 for tables, 5e-4 for adapters and models of less than 10 million
    weights, 1e-5 for all weights of larger ones (the paper trains 1.7B-3B models at 5e-6 to 2e-5)."""
    schedule: Schedule = "constant"
    """How the learning rate falls: constant, or linear or cosine, which reach 0 with the last update."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Updates over which the learning rate rises to its full value."""
    horizon: Annotated[int, Field(ge=0)] = 0
    """Updates after which a linear or cosine schedule reaches 0; 0: all updates of the run, or of the stage."""
    ratio: Literal["token", "sequence", "trajectory"] = "token"
    """Level of the likelihood ratio: token, sequence (a text), or trajectory, for learners that say which texts belong
    to one trajectory, as mgrpo does."""
    average: Literal["tokens", "sequences"] = "tokens"
    """With ratio="token": mean over all tokens of an agent, or mean over sequences of the mean over their tokens."""
    importance: Literal["auto", "none", "token", "sequence"] = "auto"
    """Weight of a token, or of a whole text (sequence): the trainer's likelihood over the one the sampler recorded, at
    most 2; none: everything weighs 1. auto takes the level of `ratio`, also of whole trajectories, where sampler and
    trainer compute differently: a language model with parameters of less than 32 bits or under autocast, or one whose
    texts another program draws. Elsewhere auto is none."""
    truncated: Literal["learn", "mask"] = "learn"
    """Texts that the token limit ended: learn from them, or mask them, which leaves them in the baseline and takes them
    out of the loss and its mean."""
    clip_low: NotNegative = 0.2
    """The ratio is clipped below 1 - clip_low ..."""
    clip_high: NotNegative = 0.2
    """... and above 1 + clip_high."""
    beta: NotNegative = 0.0
    """Weight of the KL term to the reference: the policy as it is when the learner, or its stage, begins."""
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

    least_group_size: ClassVar[int] = 1
    """Fewest episodes per task to learn anything from: 2 where the episodes of a group are compared."""

    @model_validator(mode="after")
    def _refuse_steps_without_effect(self) -> UpdaterOptions:
        if self.average == "sequences" and self.ratio != "token":
            raise ValueError(
                f"average is for ratio='token'; with ratio={self.ratio!r} every text is one term, leave it out"
            )
        if self.importance == "token" and self.ratio != "token":
            raise ValueError(
                f"importance='token' weighs tokens, and with ratio={self.ratio!r} every text is one term; set "
                "importance='sequence' or leave it at 'auto'"
            )
        if self.horizon:
            refuse_endless_warmup(self, self.horizon)
        if self.schedule == "constant" and self.horizon:
            raise ValueError(f"horizon={self.horizon} is for schedule='linear' or 'cosine'; leave it out")
        return self


def refuse_endless_warmup(options: UpdaterOptions, updates: int) -> None:
    """Raises ValueError where the warmup takes all updates of a falling learning rate."""
    last = options.horizon or updates
    if options.schedule != "constant" and last <= options.warmup:
        raise ValueError(
            f"schedule={options.schedule!r} falls from update {options.warmup} (warmup) to update {last}; give a "
            "smaller warmup, or a run or a horizon that is longer"
        )


class TurnOptions(UpdaterOptions):
    """Options of learners that credit each turn by itself, and all of `UpdaterOptions`."""

    ratio: Literal["token", "sequence"] = "token"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Level of the likelihood ratio: token or sequence."""
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount between turns."""


class MAGRPOConfig(TurnOptions):
    """Options of MAGRPO, its relatives, and GRPO: those of credit, and all of `UpdaterOptions`."""

    pairing: Literal["aligned", "cross"] = "aligned"
    """Which texts are scored together: the g-th of every agent, or all combinations."""
    tree: bool = False
    """Branch every joint action again at the next turn, instead of continuing G trajectories."""
    credit: Literal["joint", "counterfactual", "message"] = "joint"
    """Who gets credit for a return: all agents alike (joint); each agent, by comparing its text with its texts in the
    group's other trajectories while the others say the same (counterfactual); or each message, by comparing it with
    others drawn from the same history (message; C3, arXiv:2603.06859). With pairing="cross", and where everything could
    be scored, counterfactual is the same as advantage="leave_one_out"."""
    continuation: Literal["frozen", "resampled"] | None = None
    """With counterfactual and message credit: later turns repeat the recorded texts (frozen), or are drawn anew where
    histories changed (resampled). Left out: frozen with counterfactual, resampled with message. Where only the last
    texts are paid (drafts, `pays` of the environment), frozen credits earlier texts only for ending the episode."""
    alternatives: Count = 1
    """With message credit: texts drawn from the same history for each text that was said; they are learnt from too."""
    silence: bool = False
    """With message credit: compare with the empty text too. It is not learnt from."""
    budget: Positive | None = None
    """With message credit: most generations per task for alternatives and what follows them. Texts without alternatives
    are not learnt from. Left out: no limit."""
    advantage: Kind | Literal["batch"] = "std"
    """Baseline and scale of the advantage: std, mean, leave_one_out, max or raw over a group; or batch, over all texts
    of an update, which needs no groups (ReBN, arXiv:2510.01051), but has one baseline for all tasks: where these differ
    in what they pay by more than texts do, little is learnt. Counterfactual and message credit take leave_one_out over
    the alternatives."""

    @property
    def at_decisions(self) -> bool:
        """Whether joint actions at decision points are compared, and not trajectories."""
        return self.tree or self.pairing == "cross" or self.credit != "joint"

    @property
    def least_group_size(self) -> int:  # type: ignore[override]  # follows from the options
        """Fewest episodes per task to learn anything from: a text that is compared with nothing has advantage 0."""
        alone = self.advantage in ("raw", "batch") and self.credit == "joint"
        return 1 if self.credit == "message" or alone else 2

    @model_validator(mode="after")
    def _refuse_credit_without_effect(self) -> MAGRPOConfig:
        default = MAGRPOConfig.model_fields["advantage"].default
        if self.credit != "joint" and ("advantage" in self.model_fields_set or self.advantage != default):
            raise ValueError(
                f"credit={self.credit!r} has its own baseline, so advantage={self.advantage!r} would have no effect; "
                "leave one of them at its default"
            )
        if self.credit == "counterfactual" and self.tree and self.pairing == "aligned":
            raise ValueError(
                "credit='counterfactual' compares joint actions that an aligned tree does not play; set "
                "pairing='cross' or tree=false"
            )
        if self.credit == "message" and (self.tree or self.pairing == "cross"):
            raise ValueError("credit='message' draws alternatives beside trajectories; leave out tree and pairing")
        if self.continuation is not None and (self.credit == "joint" or self.pairing == "cross"):
            raise ValueError(
                "continuation is for credit='counterfactual' with pairing='aligned', and for credit='message'; leave "
                "it out"
            )
        return self

    @model_validator(mode="after")
    def _refuse_message_options_without_effect(self) -> MAGRPOConfig:
        options = {"alternatives", "silence", "budget"}
        if self.credit != "message" and (given := sorted(options & self.model_fields_set)):
            raise ValueError(f"{given[0]} is for credit='message'; leave it out")
        if not self.alternatives and not self.silence:
            raise ValueError("alternatives=0 leaves a text nothing to be compared with; set silence=true too")
        return self


class MGRPOConfig(UpdaterOptions):
    """Options of M-GRPO: those of credit, and all of `UpdaterOptions`."""

    ratio: Literal["token", "trajectory"] = "token"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Level of the likelihood ratio: token, or trajectory (all its texts together, as in the paper)."""
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


class MAREINFORCEConfig(MAGRPOConfig):
    """Options of MAREINFORCE."""

    advantage: Literal["raw"] = "raw"  # pyright: ignore[reportIncompatibleVariableOverride]  # frozen
    """No baseline."""


class MARLOOConfig(MAGRPOConfig):
    """Options of MARLOO."""

    advantage: Literal["leave_one_out"] = "leave_one_out"  # pyright: ignore[reportIncompatibleVariableOverride]
    """The mean of the others is the baseline."""


class MAREMAXConfig(MAGRPOConfig):
    """Options of MAREMAX."""

    advantage: Literal["max"] = "max"  # pyright: ignore[reportIncompatibleVariableOverride]
    """The best of the group is the baseline."""
