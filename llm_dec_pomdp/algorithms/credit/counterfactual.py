"""Counterfactual credit: each agent's text against its texts in the group's other trajectories, the others held fixed.

It leaves out of an agent's credit what the others contributed: an agent that cannot change the return has advantage
exactly 0. At later turns it borrows texts that were said after other histories; the baseline stays unbiased.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...rollout import Counterfactual, Rollout
from ...rollout.counterfactual import Continuation
from ...types import Group
from ..advantages import Array, Compare, counterfactual_advantages, group_advantages
from ..samples import Sample
from .base import Credit, at_decisions


class CounterfactualCredit(Credit):
    """What a text earned beyond what the agent's other texts would have earned in its place."""

    continuation: Continuation = "frozen"
    """Later turns repeat the recorded texts (frozen: no generation, and biased where others would have reacted), or are
    drawn anew where histories changed (resampled). Where only the last texts are paid (drafts, `turn_reward` of the
    environment), frozen credits earlier texts only for ending the episode."""

    @property
    def rollout(self) -> Rollout:
        """G trajectories, and every text replaced by the agent's other texts."""
        return Counterfactual(self.continuation)

    def advantages(self, returns: Array) -> Array:
        """Subtract the mean of the other returns from each return, see `group_advantages`."""
        return group_advantages(returns, "leave_one_out")

    def samples(self, group: Group, gamma: float, advantages: Compare | None = None) -> Iterator[Sample]:
        """One advantage per agent and text, see `counterfactual_advantages`."""
        return at_decisions(group, gamma, partial(counterfactual_advantages, kind=advantages or self.advantages))
