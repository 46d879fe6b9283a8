"""Trajectories side by side: the plain way to play, and how teams are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP
from ..seeding import derive
from ..types import Group
from .base import advance, begin_groups, in_groups, per_action, refuse_unknown, unfinished

Chance = Literal["shared", "own"]
_AT_ONCE = 32  # episodes that an evaluation plays side by side


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


def independent(
    env: TextDecPOMDP, policy: Policy, sampling: Sampling, seed: int, items: int | None = None, samples: int = 1
) -> Iterator[list[Group]]:
    """Independent episodes of the tasks of an environment, some tasks at a time: what an evaluation plays.

    Args:
        env: What is played.
        policy: Who plays.
        sampling: How texts are drawn.
        seed: With the task, all that is drawn depends on it alone.
        items: The first so many tasks; left out, all.
        samples: Episodes of each.
    """
    ids = [item.id for item in env.items[:items]]
    tasks = max(1, _AT_ONCE // samples)
    for chunk in (ids[first : first + tasks] for first in range(0, len(ids), tasks)):
        seeds = [derive(seed, "evaluation", item_id) for item_id in chunk]
        yield Trajectories(chance="own").play(env, policy, chunk, seeds, sampling, samples)
