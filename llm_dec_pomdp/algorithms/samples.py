"""Samples, which are completions with advantages, and the parts of an episode that credit assignment needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..types import Completion, Episode, Event, Group


@dataclass(frozen=True, slots=True)
class Sample:
    """One agent's completion with its advantage.

    Attributes:
        agent: The agent that acted.
        completion: The text with its token ids and log-probabilities.
        advantage: Advantage of the completion for this agent; NaN if it could not be scored.
        weight: Its weight in a mean. In a tree, it is the share of the trajectories that contain the completion, below
            1 at later turns. With a budget (message credit), it is above 1 for the chosen completions.
        group: Index of its group among those of the update.
        trajectory: Number of its trajectory; 0 if trajectories do not matter.
        loss_weight: Its factor in the agent's objective, which is a mean; set by the updater.
        index: Index among the samples of a step; set by the updater.
        tokens: Advantage of each token in units of `advantage`; empty: 1 for all.
    """

    agent: str
    completion: Completion
    advantage: float
    weight: float = 1.0
    group: int = 0
    trajectory: int = 0
    loss_weight: float = 0.0
    index: int = 0
    tokens: tuple[float, ...] = ()


def usable(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples that can be trained on: completions with tokens, and with an advantage that is not NaN."""
    return [s for s in samples if s.completion.token_ids and not math.isnan(s.advantage)]


def called_agents(episode: Episode) -> dict[str, Event]:
    """Return the event that called each sub-agent, in the order of the calls."""
    return {event.agent: event for turn in episode.turns for event in turn.events if event.kind == "spawn"}


def earned_by(episode: Episode, agent: str) -> float:
    """Return the sum of an agent's rewards: its own, or the team's if rewards are not individual.

    Raises:
        ValueError: It is infinite.
    """
    earned = sum(episode.rewards_of(agent))
    if math.isinf(earned):
        raise ValueError(
            f"task {episode.item_id!r} rewards {agent!r} with {earned}; return a finite reward, or NaN for no score"
        )
    return earned


def check_rewards(groups: Sequence[Group]) -> None:
    """Raise ValueError for an infinite reward."""
    for group in groups:
        branches = [branch for decision in group.decisions for branch in decision.branches]
        paid = [("the team", e.rewards) for e in group.episodes] + [("the team", b.rewards) for b in branches]
        paid += [(repr(a), (r,)) for e in group.episodes for turn in e.turns for a, r in turn.rewards.items()]
        paid += [(repr(agent), rewards) for b in branches for agent, rewards in b.individual.items()]
        for whom, reward in ((whom, reward) for whom, rewards in paid for reward in rewards):
            if math.isinf(reward):
                raise ValueError(
                    f"task {group.item_id!r} rewards {whom} with {reward}; return a finite reward, or NaN for no score"
                )
