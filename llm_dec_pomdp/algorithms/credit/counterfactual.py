"""Counterfactual credit: each agent's text against its texts in the group's other trajectories, teammates held fixed.

An agent that cannot change the return has advantage exactly 0. At later turns the other texts come from other
histories; the baseline stays unbiased.
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
    """The return of a text minus the return with the agent's other texts in its place."""

    continuation: Continuation = "frozen"
    """Later turns repeat the recorded texts (frozen: no generation, and biased if teammates would have reacted), or are
    sampled again where histories changed (resampled). Where only the last texts are rewarded (drafts, `turn_reward` of
    the environment), frozen credits earlier texts only for ending the episode."""

    @property
    def rollout(self) -> Rollout:
        """G trajectories, and every text replaced by the agent's other texts."""
        return Counterfactual(self.continuation)

    def advantages(self, returns: Array) -> Array:
        """Subtract the mean of the other returns from each return, see `group_advantages`."""
        return group_advantages(returns, "leave_one_out")

    def samples(self, group: Group, gamma: float, advantages: Compare | None = None) -> Iterator[Sample]:
        """Return one sample per agent and text, see `counterfactual_advantages`."""
        return at_decisions(group, gamma, partial(counterfactual_advantages, kind=advantages or self.advantages))
