"""Crossed rollouts: all combinations of the agents' completions, with as many generations as trajectories need."""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Group
from .base import Batch, BatchRollout
from .tree import Tree


@dataclass(frozen=True, slots=True)
class Crossed(BatchRollout):
    """All combinations of G completions of each of n agents, in episodes of one turn: G^n joint actions.

    All joint actions of a task share the environment's chance.
    """

    def groups(self, batch: Batch) -> list[Group]:
        """Return groups with one decision, which has all joint actions, and one episode per joint action.

        Raises:
            ValueError: Episodes have several turns, or there are too many joint actions.
        """
        env = batch.env
        if env.max_turns > 1:
            raise ValueError(
                f"Crossed() needs episodes of one turn, and {env.metadata['name']} has max_turns {env.max_turns}; use "
                "Tree('cross') (option of learners: tree=true), or Trajectories() (pairing='aligned')"
            )
        return Tree("cross").groups(batch)
