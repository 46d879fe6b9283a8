"""Counterfactual credit: compares an agent's completion with its others in the group, with teammates held fixed.

An agent that cannot change the return has advantage exactly 0. At later turns the other completions come from other
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
    """The return of a completion minus the mean return with the agent's other completions in its place."""

    continuation: Continuation = "frozen"
    """Actions of later turns: the recorded ones (frozen), or sampled again where histories changed (resampled). frozen
    needs no generation, and is biased if teammates would have reacted. If only the last actions are rewarded (drafts,
    `turn_reward` of the environment), frozen credits earlier actions only for ending the episode."""

    @property
    def rollout(self) -> Rollout:
        """G trajectories, and every completion replaced by the agent's other completions."""
        return Counterfactual(self.continuation)

    def advantages(self, returns: Array) -> Array:
        """Subtract the mean of the other returns from each return, see `group_advantages`."""
        return group_advantages(returns, "leave_one_out")

    def samples(self, group: Group, gamma: float, advantages: Compare | None = None) -> Iterator[Sample]:
        """Return one sample per agent and completion, see `counterfactual_advantages`."""
        return at_decisions(group, gamma, partial(counterfactual_advantages, kind=advantages or self.advantages))
