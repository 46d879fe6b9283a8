"""Options that commands, suites and functions share, with their defaults; without heavy imports."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from .config import Config, Count, NotNegative, Positive


class Sampling(Config):
    """Options of sampling a completion."""

    temperature: NotNegative = 1.0
    """Divisor of the logits; 0 takes the most likely token."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Nucleus sampling: sample from the smallest set of tokens with this probability mass; 1 keeps all. Learners use
    log-probabilities of the full distribution, so their gradient is biased if top_p is below 1 or top_k is set."""
    top_k: Count = 0
    """Number of most likely tokens to sample from; 0 keeps all. See top_p."""
    max_new_tokens: Positive = 128
    """Greatest length of one agent's completion, in tokens; TRL's max_completion_length."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Strings that end a completion; its text ends before them, as with vLLM and OpenAI. All sampled tokens are kept
    and trained on, including the tokens of the stop string."""

    def for_parts(self, parts: int) -> Sampling:
        """Return the options for an action with the parts of several agents; the token limit is per part."""
        return self.model_copy(update={"max_new_tokens": self.max_new_tokens * parts})

    def changed(self, change: Sampling) -> Sampling:
        """Return the options with the fields that were set in `change`, including those set to their defaults."""
        return self.model_copy(update={name: getattr(change, name) for name in change.model_fields_set})


class PartnersConfig(Config):
    """Partners of a team in training: in some groups, a partner from a pool replaces one trained member."""

    pool: Annotated[tuple[str, ...], BeforeValidator(lambda names: [names] if isinstance(names, str) else names)] = (
        "self",
    )
    """Pool of partners, a name or a list of them: self (earlier weights of the member), frozen (its weights at the
    start), silent, noisy or late (the member with a fault), or the folder of a run (the member of that team)."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Probability that a group, and so all its episodes, has a partner."""
    every: Positive = 10
    """Updates between the weights that the pool self keeps. They stay in memory and in checkpoints."""
    last: Positive | None = None
    """Number of newest weights that the pool self keeps; by default all since the start."""

    @model_validator(mode="after")
    def _check_pool(self) -> PartnersConfig:
        if not self.pool:
            raise ValueError("pool is empty; give self, frozen, silent, noisy, late, or folders of runs")
        if len(set(self.pool)) < len(self.pool):
            raise ValueError(f"pool is {list(self.pool)}, which has an entry twice; give each entry once")
        if self.last and "self" not in self.pool:
            raise ValueError(f"last is {self.last}, but pool is {list(self.pool)}; add self to it, or leave last out")
        return self


class TrainerConfig(Config):
    """Length and batch size of training."""

    steps: Count = 40
    """Number of updates."""
    prompts_per_step: Positive = 4
    """Number of tasks per update."""
    group_size: Positive = 8
    """G, TRL's num_generations: episodes per task; with crossed credit or trees, completions per agent and decision
    point."""
    staleness: Count = 0
    """k: while an update is computed, the batch for k updates later is sampled with the weights before this update.
    This needs a sampler in another process (executor processes or ray, or an engine) and an importance other than
    "none". 0: sampling and updates alternate."""
    save_every: Count = 10
    """Updates between checkpoints. One is also saved after the last update and at a signal; 0: only those two."""
    keep: Annotated[int, Field(ge=2)] = 2
    """Number of newest checkpoints that are kept, at least 2."""
    on_divergence: Literal["warn", "stop", "rollback"] = "warn"
    """Reaction if an update damages the weights, as the monitor of the first updates finds (`training.divergence`):
    warn continues, stop ends the run, and rollback returns to the newest checkpoint from before the damage and
    continues with a third of the learning rate, at most twice. If losses or weights are not finite, warn stops too."""
    partners: PartnersConfig | None = None
    """Partners that replace members in some groups, see `training.partners`; by default, the team trains by itself."""
    learnability: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability that a task of an update is sampled in proportion to the variance of the returns in its last group
    (arXiv:2408.15099), see `training.learnability`. The remaining tasks are those of the shuffled epochs."""

    judge: str = ""
    """`principles:FILE`: a language model ranks the episodes of each group by the principles in a text file, one in
    each line, and this rank is the reward, see `training.judged`; by default, the reward of the environment."""
    judge_model: str = ""
    """Model of the judge: a .gguf file, a folder, a name on the Hugging Face hub, or a server as
    http://HOST:PORT/v1#NAME."""

    @model_validator(mode="after")
    def _check_judge(self) -> TrainerConfig:
        if bool(self.judge) != bool(self.judge_model):
            raise ValueError(
                f"judge is {self.judge!r} and judge_model is {self.judge_model!r}; give both, or leave both out"
            )
        if self.judge and self.staleness:
            raise ValueError(
                f"staleness is {self.staleness}, but groups with a judge are not sampled during updates; set it to 0, "
                "or leave judge out"
            )
        return self

    @model_validator(mode="after")
    def _check_staleness(self) -> TrainerConfig:
        if self.learnability and self.staleness:
            raise ValueError(
                f"staleness is {self.staleness}, but learnability chooses tasks by returns that are not known when "
                "batches are sampled ahead; set one of them to 0"
            )
        if self.partners and self.staleness:
            raise ValueError(
                f"staleness is {self.staleness}, but groups with partners are not sampled during updates; set it to "
                "0, or leave partners out"
            )
        return self


class EvaluationConfig(Config):
    """Extent of an evaluation."""

    split: str = "test"
    """Split of the task set: train, test or all."""
    items: Positive | None = None
    """Number of evaluated tasks, starting with the first; by default all."""
    samples: Positive | None = None
    """Episodes per task; by default 1, or 100 if there is a single task."""
    every: Count = 0
    """Updates between evaluations, for the learning curve; 0: only before and after training."""
    timing: Count = 0
    """Number of tasks, starting with the first, that are played again one at a time, to measure the response time of a
    single user; 0: none."""
