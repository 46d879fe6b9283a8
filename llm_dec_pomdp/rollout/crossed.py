"""Crossed texts: every combination of what the agents said, with as many generations as trajectories take."""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Group
from .base import Batch, BatchRollout
from .tree import Tree


@dataclass(frozen=True, slots=True)
class Crossed(BatchRollout):
    """All combinations of G texts of n agents, G^n joint actions, in episodes of one turn: a tree of one level.

    All joint actions of a task share the environment's chance.
    """

    def groups(self, batch: Batch) -> list[Group]:
        """A group holds one decision with all joint actions, and an episode for each.

        Raises:
            ValueError: Episodes have several turns, or there are too many joint actions.
        """
        env = batch.env
        if env.max_turns > 1:
            raise ValueError(
                f"crossed texts are for episodes of one turn, and those of {env.metadata['name']} have "
                f"{env.max_turns}; play Tree('cross') (learners: tree=true), or Trajectories() (pairing='aligned')"
            )
        return Tree("cross").groups(batch)
