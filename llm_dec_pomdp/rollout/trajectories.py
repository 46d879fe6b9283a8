"""Trajectories side by side: the plain way to play, and how teams are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP
from ..types import Group
from .base import advance, begin_groups, in_groups, per_action, refuse_unknown, unfinished

Chance = Literal["shared", "own"]


@dataclass(frozen=True, slots=True)
class Trajectories:
    """G trajectories of every task, each continued to its end.

    Attributes:
        chance: "shared" gives all episodes of a task the same seed of the environment (common random numbers): they
            begin alike, which is checked, meet the same luck, and differ by what was said alone, so that a group
            baseline compares texts. "own" gives every episode a seed of its own: they are independent draws, as an
            estimate of the mean return over the environment's chance needs them.
    """

    chance: Chance = "shared"

    def __post_init__(self) -> None:
        refuse_unknown("chance", self.chance, Chance)

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 1,
    ) -> list[Group]:
        """See `Rollout`. The episodes of a group are all that it holds."""
        sampling = per_action(sampling, env)
        episodes = begin_groups(env, item_ids, seeds, width, shared_chance=self.chance == "shared")
        while running := unfinished(episodes):
            advance(running, policy, sampling)
        return in_groups(item_ids, episodes)
