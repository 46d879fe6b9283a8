"""Crossed texts: every combination of what the agents said, from as many generations as trajectories need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP
from ..types import Group
from .tree import Tree


@dataclass(frozen=True, slots=True)
class Crossed:
    """All combinations of G texts per agent, G^n joint actions, in episodes of one turn: a tree that branches once.

    The environment's chance is shared by all joint actions of a task, always.
    """

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 1,
    ) -> list[Group]:
        """See `Rollout`. A group holds one decision with all joint actions, and an episode for each.

        Raises:
            ValueError: Episodes have several turns, or there are too many joint actions.
        """
        if env.max_turns > 1:
            raise ValueError(
                f"crossed texts are combinations that no single trajectory continues, and the episodes of "
                f"{env.metadata['name']} have {env.max_turns} turns; play Tree('cross') (learners: tree=true), or "
                "Trajectories() (pairing='aligned')"
            )
        return Tree("cross").play(env, policy, item_ids, seeds, sampling, width)
