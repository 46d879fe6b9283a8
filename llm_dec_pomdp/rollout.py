"""The one loop in which environments and policies meet.

All episodes advance in lockstep: at every turn the requests of all live episodes go to the team together, so that
agents, tasks and samples share forward passes, and then all environments step, with rewards judged concurrently.
Episodes of a group whose histories are still the same, token by token, share one request, whose prompt a model reads
once.

A `RolloutPlan` asks for more than trajectories side by side; `branching` plays that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .agents.base import Sampling, Team
from .branching import Running, Wanted, ask, grow, ids_said, step_all, try_alternatives
from .envs.base import TextDecPOMDP
from .seeding import derive
from .types import Completion, Episode, Group, RolloutPlan

ALIGNED = RolloutPlan()


def collect(
    env: TextDecPOMDP,
    team: Team,
    item_ids: Sequence[str],
    seeds: Sequence[int],
    sampling: Sampling,
    group_size: int = 1,
    plan: RolloutPlan = ALIGNED,
) -> list[Group]:
    """Play every task `group_size` times, or as the plan says.

    Args:
        env: The environment (under its protocol); it is copied, and stays as it is.
        team: Plays all of its agents.
        item_ids: Tasks by id.
        seeds: One per task. Episode g of a task has the seed `derive(seed, g)`, and everything in it follows from that.
        sampling: How texts are drawn; `max_new_tokens` is per agent's part.
        group_size: G, the episodes per task (in a tree: the texts per agent and decision point).
        plan: Whether texts are crossed, turns branch, and alternatives are tried.

    Returns:
        One group per task, in order.

    Raises:
        ValueError: The episodes of a task do not begin alike, or the plan does not fit the environment.
    """
    sampling = dataclasses.replace(sampling, max_new_tokens=sampling.max_new_tokens * env.parts_per_action)
    if plan.tree or plan.pairing == "cross":
        starts = [
            _begin(env, i, item_id, seed, seed) for i, (item_id, seed) in enumerate(zip(item_ids, seeds, strict=True))
        ]
        return grow(starts, team, sampling, group_size, plan)
    episodes = [
        _begin(env, group, item_id, derive(seed, number), seed)
        for group, (item_id, seed) in enumerate(zip(item_ids, seeds, strict=True))
        for number in range(group_size)
    ]
    _check_beginnings(episodes)
    while live := [episode for episode in episodes if episode.env.agents]:
        if plan.alternatives != "none":
            for episode in live:
                episode.points.append(episode.env.fork())
        _advance(live, team, sampling)
    decisions = try_alternatives(episodes, team, sampling, plan.alternatives)
    finished = [Episode(e.item_id, e.seed, tuple(e.turns), e.terminated) for e in episodes]
    return [
        Group(item_id, tuple(finished[i * group_size : (i + 1) * group_size]), tuple(decisions.get(i, ())))
        for i, item_id in enumerate(item_ids)
    ]


def _begin(env: TextDecPOMDP, group: int, item_id: str, seed: int, task_seed: int) -> Running:
    """An episode at its start; all episodes of a group begin with the same seed of the environment."""
    own = env.fork()
    own.reset(seed=derive(task_seed, "env"), options={"task_id": item_id})
    return Running(own, group, item_id, seed)


def _check_beginnings(episodes: Sequence[Running]) -> None:
    """A group baseline compares what began alike."""
    first: dict[int, Running] = {}
    for episode in episodes:
        other = first.setdefault(episode.group, episode)
        if other.env.state() != episode.env.state():
            raise ValueError(
                f"task {episode.item_id!r} of {episode.env.metadata['name']} began in two ways with the same seed, so "
                "its episodes cannot be compared; let reset() draw from the seed that it is given and nothing else"
            )


def _advance(live: Sequence[Running], team: Team, sampling: Sampling) -> None:
    """One turn of all live episodes."""
    said = _ask(live, team, sampling)
    for episode, stepped in zip(live, step_all([e.env for e in live], said), strict=True):
        episode.turns.append(stepped.turn)
        episode.terminated = stepped.terminated


def _ask(live: Sequence[Running], team: Team, sampling: Sampling) -> list[dict[str, Completion]]:
    """What every asked agent of every live episode says."""
    wanted: list[tuple[int, Wanted]] = []
    for i, episode in enumerate(live):
        for agent in episode.env.agents:
            if episode.env.asked(agent):
                seed = derive(episode.seed, agent, episode.env.turn)
                ids = ids_said(agent, episode.turns)
                wanted.append((i, Wanted(episode.group, agent, episode.env.history(agent), ids, seed)))
    said: list[dict[str, Completion]] = [{} for _ in live]
    for (i, one), completion in zip(wanted, ask(team, sampling, [one for _, one in wanted]), strict=True):
        said[i][one.agent] = completion
    return said
