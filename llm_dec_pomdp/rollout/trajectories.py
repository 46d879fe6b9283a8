"""Trajectories in parallel: the default rollout of learners and of evaluation."""

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
_AT_ONCE = 32  # episodes that an evaluation plays in parallel


@dataclass(frozen=True, slots=True)
class Trajectories(BatchRollout):
    """G trajectories of every task, each played to its end.

    Attributes:
        chance: "shared": all episodes of a task have the same seed of the environment (common random numbers). They
            start in the same state, which is checked, so a group baseline compares only the agents' actions. "own":
            each episode has its own seed, for an unbiased estimate of the mean return over the environment's chance.
    """

    chance: Chance = "shared"

    def __post_init__(self) -> None:
        check_choice("chance", self.chance, Chance)

    def groups(self, batch: Batch) -> list[Group]:
        """Return groups of episodes, without decisions."""
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
    """Play independent episodes of the tasks of an environment for an evaluation, several tasks at a time.

    Args:
        env: The environment.
        policy: The policy of all agents.
        sampling: Sampling options.
        seed: The seed; with the id of a task, it determines the episodes of the task.
        items: Number of tasks, starting with the first; None: all.
        samples: Number of episodes per task.
        done: Ids of tasks that an earlier process has played, with the same arguments; they are left out.

    Yields:
        Groups of some tasks, in order.
    """
    ids = [item.id for item in env.items[:items]]
    tasks = max(1, _AT_ONCE // samples)
    for chunk in (ids[first : first + tasks] for first in range(0, len(ids), tasks)):
        if done and all(item_id in done for item_id in chunk):
            continue
        seeds = [derive(seed, "evaluation", item_id) for item_id in chunk]
        yield Trajectories(chance="own").play(env, policy, chunk, seeds, sampling, samples)
