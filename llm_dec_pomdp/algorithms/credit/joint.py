"""Joint credit: all agents of a trajectory share its advantage, as in MAGRPO (arXiv:2508.04652).

With individual rewards, each agent has the advantage of its own returns. With a joint reward these are equal.
`advantages.py` has the equations.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...rollout import Rollout, Trajectories, Tree
from ...types import Group
from ..advantages import Array, Compare, group_advantages, marginal_advantages, returns_of_group
from ..samples import Sample
from .base import BaselineCredit, at_decisions


class JointCredit(BaselineCredit):
    """Credit that compares the joint trajectories of a group turn by turn; in a tree, sibling joint actions.

    With the default baseline, A_t^(g) = (R_t^(g) - mean_g R_t) / std_g R_t.
    """

    tree: bool = False
    """Branch every joint action again at the next turn, instead of continuing G trajectories."""

    @property
    def rollout(self) -> Rollout:
        """G independent trajectories, or a tree of them."""
        return Tree() if self.tree else Trajectories()

    def samples(self, group: Group, gamma: float, advantages: Compare | None = None) -> Iterator[Sample]:
        """Return one sample per trajectory, turn and agent, or per completion of a joint action in a tree."""
        compare = advantages or self.advantages  # (advantage)
        if self.tree:
            yield from at_decisions(group, gamma, partial(marginal_advantages, kind=compare))
            return
        values: dict[str, Array] = {}  # (return) [G, T] of each agent
        for agent in dict.fromkeys(agent for e in group.episodes for turn in e.turns for agent in turn.actions):
            values[agent] = returns_of_group([episode.rewards_of(agent) for episode in group.episodes], gamma)
        for t in range(max((len(episode.turns) for episode in group.episodes), default=0)):
            of_agents = {agent: group_advantages(r[:, t], compare) for agent, r in values.items()}
            for g, episode in enumerate(group.episodes):
                for turn in episode.turns[t : t + 1]:  # empty if it has ended
                    for agent, completion in turn.actions.items():
                        yield Sample(agent, completion, float(of_agents[agent][g]), trajectory=g)  # (advantage)
