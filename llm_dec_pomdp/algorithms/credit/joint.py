"""Joint credit: all agents of a trajectory share its advantage, as in MAGRPO (arXiv:2508.04652)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...rollout import Rollout, Trajectories, Tree
from ...types import Group
from ..advantages import group_advantages, marginal_advantages, returns_of_group
from ..samples import Sample
from .base import BaselineCredit, at_decisions


class JointCredit(BaselineCredit):
    """The joint trajectories of a group are compared turn by turn; in a tree, joint actions with their siblings.

    With the default baseline, A_t^(g) = (R_t^(g) - mean_g R_t) / std_g R_t.
    """

    tree: bool = False
    """Branch every joint action again at the next turn, instead of continuing G trajectories."""

    @property
    def rollout(self) -> Rollout:
        """G trajectories side by side, or a tree of them."""
        return Tree() if self.tree else Trajectories()

    def samples(self, group: Group, gamma: float) -> Iterator[Sample]:
        """One advantage per trajectory and turn, or per joint action."""
        if self.tree:
            yield from at_decisions(group, gamma, partial(marginal_advantages, kind=self.kind))  # (advantage)
            return
        values = returns_of_group([episode.rewards for episode in group.episodes], gamma)  # (return) [G, T]
        for t in range(values.shape[1]):
            advantages = group_advantages(values[:, t].tolist(), self.kind)  # (advantage) [G]
            for episode, advantage in zip(group.episodes, advantages.tolist(), strict=True):
                for turn in episode.turns[t : t + 1]:  # none where it has ended
                    for agent, completion in turn.actions.items():
                        yield Sample(agent, completion, advantage)
