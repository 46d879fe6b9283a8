"""The one loop in which environments and policies meet.

All episodes advance in lockstep: at every turn the requests of all live episodes go to the team together, so that
agents, tasks and samples share forward passes, and then all environments step, with rewards judged concurrently.
Episodes of a group that still have the same history share one request, whose prompt a model reads once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from .agents.base import Request, Sampling, Team
from .envs.base import TextDecPOMDP, step_many
from .seeding import derive
from .types import Completion, Episode, Group, Turn


@dataclass(slots=True)
class _Running:
    """An episode in progress."""

    env: TextDecPOMDP
    group: int
    item_id: str
    seed: int
    turns: list[Turn] = field(default_factory=list[Turn])
    terminated: bool = False


def collect(
    env: TextDecPOMDP,
    team: Team,
    item_ids: Sequence[str],
    seeds: Sequence[int],
    sampling: Sampling,
    group_size: int = 1,
) -> list[Group]:
    """Play `group_size` episodes of every task.

    Args:
        env: The environment (under its protocol); it is copied, and stays as it is.
        team: Plays all of its agents.
        item_ids: Tasks by id.
        seeds: One per task. Episode g of a task has the seed `derive(seed, g)`, and everything in it follows from that.
        sampling: How texts are drawn; `max_new_tokens` is per agent's part.
        group_size: G, the episodes per task.

    Returns:
        One group per task, in order.
    """
    sampling = dataclasses.replace(sampling, max_new_tokens=sampling.max_new_tokens * env.parts_per_action)
    episodes = [
        _begin(env, group, item_id, derive(seed, number))
        for group, (item_id, seed) in enumerate(zip(item_ids, seeds, strict=True))
        for number in range(group_size)
    ]
    while live := [episode for episode in episodes if episode.env.agents]:
        _advance(live, team, sampling)
    finished = [Episode(e.item_id, e.seed, tuple(e.turns), e.terminated) for e in episodes]
    return [
        Group(item_id, tuple(finished[i * group_size : (i + 1) * group_size])) for i, item_id in enumerate(item_ids)
    ]


def _begin(env: TextDecPOMDP, group: int, item_id: str, seed: int) -> _Running:
    own = env.fork()
    own.reset(seed=derive(seed, "env"), options={"task_id": item_id})
    return _Running(own, group, item_id, seed)


def _advance(live: Sequence[_Running], team: Team, sampling: Sampling) -> None:
    """One turn of all live episodes."""
    said = _ask(live, team, sampling)
    actions = [{agent: said[i].get(agent, _SILENT).text for agent in e.env.agents} for i, e in enumerate(live)]
    observations = [{agent: e.env.history(agent)[-1] for agent in said[i]} for i, e in enumerate(live)]
    results = step_many([e.env for e in live], actions)
    for i, (episode, (_, rewards, terminations, _, _)) in enumerate(zip(live, results, strict=True)):
        score = episode.env.last_score if episode.env.scored else None
        episode.turns.append(Turn(observations[i], said[i], next(iter(rewards.values())), score))
        episode.terminated = all(terminations.values())


_SILENT = Completion("")


def _ask(live: Sequence[_Running], team: Team, sampling: Sampling) -> list[dict[str, Completion]]:
    """What every asked agent of every live episode says."""
    waiting: dict[tuple[int, str, tuple[str, ...]], list[int]] = {}
    for i, episode in enumerate(live):
        for agent in episode.env.agents:
            if episode.env.asked(agent):
                waiting.setdefault((episode.group, agent, episode.env.history(agent)), []).append(i)
    requests = [
        Request(agent, history, tuple(derive(live[i].seed, agent, live[i].env.turn) for i in indices))
        for (_, agent, history), indices in waiting.items()
    ]
    said: list[dict[str, Completion]] = [{} for _ in live]
    for (_, agent, _), indices, completions in zip(
        waiting, waiting.values(), team.generate(requests, sampling), strict=True
    ):
        for i, completion in zip(indices, completions, strict=True):
            said[i][agent] = completion
    return said
