"""Credit for a message, compared with alternatives from the same history and the empty text (arXiv:2603.06859).

Unlike counterfactual credit it is unbiased at every turn, and it costs generations.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pydantic import model_validator

from ...config import Count, Positive
from ...rollout import Messages, Rollout
from ...rollout.counterfactual import Continuation
from ...types import Group
from ..advantages import Array, Compare, counterfactual_advantages, group_advantages
from ..samples import Sample
from .base import Credit, at_decisions


class MessageCredit(Credit):
    """The return of a completion minus the mean return with alternatives from its own history in its place (C3)."""

    continuation: Continuation = "resampled"
    """Actions of later turns: sampled again where histories changed (resampled), or the recorded ones (frozen)."""
    alternatives: Count = 1
    """Number of alternatives sampled from the history of each completion. They are trained on too."""
    silence: bool = False
    """Whether to compare with the empty text too. It is not trained on."""
    budget: Positive | None = None
    """Maximum number of generations per task for alternatives and later turns; by default there is no limit.
    Completions without alternatives are not trained on."""

    @model_validator(mode="after")
    def _check_nothing_to_compare(self) -> MessageCredit:
        assert self.rollout  # raises ValueError
        return self

    @property
    def least_group_size(self) -> int:
        """See `Credit`; 1, since alternatives come from the same history and not from the group."""
        return 1

    @property
    def rollout(self) -> Rollout:
        """G trajectories, and every completion replaced by others from its history."""
        return Messages(self.continuation, self.alternatives, self.silence, self.budget)

    def advantages(self, returns: Array) -> Array:
        """Subtract the mean of the other returns from each return, see `group_advantages`."""
        return group_advantages(returns, "leave_one_out")

    def samples(self, group: Group, gamma: float, advantages: Compare | None = None) -> Iterator[Sample]:
        """Return one sample per agent and completion, see `counterfactual_advantages`."""
        return at_decisions(group, gamma, partial(counterfactual_advantages, kind=advantages or self.advantages))
