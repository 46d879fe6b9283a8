"""Trajectories side by side: the plain way to play, and how teams are measured."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP
from ..seeding import derive
from ..types import Group
from .base import Batch, BatchRollout, advance, check_choice, in_groups, start_groups, unfinished

Chance = Literal["shared", "own"]
_AT_ONCE = 32  # episodes that an evaluation plays side by side


@dataclass(frozen=True, slots=True)
class Trajectories(BatchRollout):
    """G trajectories of every task, each played to its end.

    Attributes:
        chance: "shared" gives all episodes of a task the same seed of the environment (common random numbers): they
            begin alike, which is checked, and differ only by what was said, so that a group baseline compares texts.
            "own" gives every episode its own seed: independent draws, for an estimate of the mean return over the
            environment's chance.
    """

    chance: Chance = "shared"

    def __post_init__(self) -> None:
        check_choice("chance", self.chance, Chance)

    def groups(self, batch: Batch) -> list[Group]:
        """A group holds nothing but its episodes."""
        sampling = batch.sampling.for_parts(batch.env.facts.parts_per_action)
        episodes = start_groups(batch, shared_chance=self.chance == "shared")
        while running := unfinished(episodes):
            advance(running, batch.policy, sampling)
        return in_groups(batch.item_ids, episodes)


def independent(
    env: TextDecPOMDP,
    policy: Policy,
    sampling: Sampling,
    seed: int,
    items: int | None = None,
    samples: int = 1,
    done: Collection[str] = (),
) -> Iterator[list[Group]]:
    """Independent episodes of the tasks of an environment, some tasks at a time: what an evaluation plays.

    Args:
        env: The environment.
        policy: Speaks for all agents.
        sampling: How texts are drawn.
        seed: Decides, with the id of a task, everything in its episodes.
        items: Number of tasks, from the first on; all when left out.
        samples: Episodes of each task.
        done: Ids of tasks that an earlier process has played, in the same portions; they are left out.
    """
    ids = [item.id for item in env.items[:items]]
    tasks = max(1, _AT_ONCE // samples)
    for chunk in (ids[first : first + tasks] for first in range(0, len(ids), tasks)):
        if done and all(item_id in done for item_id in chunk):
            continue
        seeds = [derive(seed, "evaluation", item_id) for item_id in chunk]
        yield Trajectories(chance="own").play(env, policy, chunk, seeds, sampling, samples)
