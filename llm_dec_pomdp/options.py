"""Options that commands, suites and functions share, with their defaults; importing this loads nothing heavy."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .config import Config, Count, NotNegative, Positive


class Sampling(Config):
    """How to draw a text."""

    temperature: NotNegative = 1.0
    """Divides the logits; 0 takes the most likely token."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw from the fewest tokens that hold this share of the probability; 1 keeps all. Learners take log-probabilities
    before truncation, so with top_p below 1 or a top_k their gradient is biased: it is that of the whole distribution,
    on draws from a part of it."""
    top_k: Count = 0
    """Most likely tokens that are kept; 0 keeps all. See top_p."""
    max_new_tokens: Positive = 128
    """Longest text of one agent, in tokens; TRL's max_completion_length."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Strings that end a text, which is then what stands before them, as with vLLM and OpenAI. Its tokens are kept and
    trained on as they were sampled, those of the stop string included."""

    def for_parts(self, parts: int) -> Sampling:
        """Return the sampling of an action that holds the parts of several agents, with a limit for each of them."""
        return self.model_copy(update={"max_new_tokens": self.max_new_tokens * parts})

    def changed(self, change: Sampling) -> Sampling:
        """The same with the fields that were given to `change`, whatever their values are."""
        return self.model_copy(update={name: getattr(change, name) for name in change.model_fields_set})


class TrainerConfig(Config):
    """How long and how broadly to train."""

    steps: Count = 40
    """Updates."""
    prompts_per_step: Positive = 4
    """Tasks per update."""
    group_size: Positive = 8
    """G, TRL's num_generations: episodes per task; where a learner crosses texts or grows trees, texts per agent and
    decision point."""
    staleness: Count = 0
    """k: while an update is computed, the batch of k updates later is sampled, with the weights before this update. It
    needs texts that are drawn elsewhere (executor processes or ray, or an engine) and corrected importance; 0: an
    update and a batch take turns."""
    save_every: Count = 10
    """Updates between checkpoints, of which one is also saved after the last update and at a signal; 0: only those."""
    keep: Annotated[int, Field(ge=2)] = 2
    """How many of the newest checkpoints are kept, at least 2."""


class EvaluationConfig(Config):
    """What is measured."""

    split: str = "test"
    """Split of the task set: train, test or all."""
    items: Positive | None = None
    """Evaluated tasks, from the first on; all when left out."""
    samples: Positive | None = None
    """Episodes per task; left out, 1, or 100 where there is a single task."""
    every: Count = 0
    """Updates from one evaluation to the next, for the learning curve; 0: only before and after."""
    timing: Count = 0
    """Number of tasks, from the first on, that are played once more, one at a time, for the response time of a single
    user; 0: none."""
