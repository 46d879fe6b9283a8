"""Credit: pure functions from the groups that were played to samples, which are texts with advantages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..types import Completion, Decision, Episode, Event, Group
from .advantages import (
    Array,
    Choices,
    Kind,
    counterfactual_advantages,
    group_advantages,
    marginal_advantages,
    returns,
    weighted_advantages,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One agent's text with its advantage.

    Attributes:
        agent: Who said it.
        completion: What was said.
        advantage: Of this text for this agent.
        share: How many texts it stands for: below 1 in trees, whose later turns have more texts, as the share of the
            trajectories in which it was said; above 1 where it was chosen among texts that are not learnt from.
        group: Place of its group among those of the update.
        trajectory: Number of the trajectory that it belongs to; 0 where trajectories do not matter.
        weight: Its weight in the mean of the agent's objective; set by the updater.
        number: Place among the samples of a step; set by the updater.
        tokens: The advantage of each token in units of `advantage`; empty: 1 for all.
    """

    agent: str
    completion: Completion
    advantage: float
    share: float = 1.0
    group: int = 0
    trajectory: int = 0
    weight: float = 0.0
    number: int = 0
    tokens: tuple[float, ...] = ()


def usable(samples: Iterable[Sample]) -> list[Sample]:
    """The samples that can be learnt from: texts with tokens that could be scored."""
    return [s for s in samples if s.completion.token_ids and not math.isnan(s.advantage)]


def normalised(samples: Sequence[Sample]) -> list[Sample]:
    """Replace returns, which samples hold as advantages, by (R - mean R) / std R over all samples, each by its share.

    Return batch normalisation (ReBN, arXiv:2510.01051): all texts of an update are compared, whatever their task, turn
    and agent. One number is the baseline of all tasks: where these differ in what they pay by more than texts do, the
    advantages tell tasks apart and hardly texts. Where all returns are equal the advantages are 0; texts without a
    score are left out of the mean.
    """
    values = weighted_advantages([s.advantage for s in samples], [s.share for s in samples])
    return [replace(s, advantage=value) for s, value in zip(samples, values.tolist(), strict=True)]


def returns_of_decision(decision: Decision, gamma: float) -> Array:
    """Returns [B] of the joint actions of a decision point."""
    return np.array([returns(branch.rewards, gamma)[0] for branch in decision.branches])


def of_trajectories(group: Group, values: Sequence[Array], kind: Kind) -> Iterator[Sample]:
    """Trajectories side by side: one advantage per trajectory and turn, shared by all agents.

    Args:
        group: Its episodes.
        values: R_t^(g), one array [G, T].
        kind: Baseline and scale.
    """
    [table] = values
    for t in range(table.shape[1]):
        advantages = group_advantages(table[:, t].tolist(), kind)  # (advantage)
        for episode, advantage in zip(group.episodes, advantages.tolist(), strict=True):
            for turn in episode.turns[t : t + 1]:  # none where it has ended
                for agent, completion in turn.actions.items():
                    yield Sample(agent, completion, advantage)


def of_decisions(
    group: Group, values: Sequence[Array], kind: Kind, credit: Literal["joint", "counterfactual", "message"]
) -> Iterator[Sample]:
    """Decision points with several joint actions each: an advantage per agent and text.

    Args:
        group: Its decision points.
        values: Returns of the joint actions [B], one array per decision point.
        kind: Baseline and scale of joint credit.
        credit: "joint" credits all agents alike; the others compare an agent's texts with each other.
    """
    for decision, joint in zip(group.decisions, values, strict=True):
        choices: Choices = np.array([branch.choice for branch in decision.branches], dtype=np.int64)
        choices = choices.reshape(len(joint), len(decision.actions))
        if credit == "joint":
            table = marginal_advantages(choices, joint, decision.drawn, kind)  # (advantage)
        else:
            table = counterfactual_advantages(choices, joint, decision.drawn)
        for (agent, texts), advantages in zip(decision.actions.items(), table.tolist(), strict=True):
            for completion, advantage in zip(texts[: decision.drawn], advantages, strict=True):
                yield Sample(agent, completion, advantage, share=decision.share)


def called_agents(episode: Episode) -> dict[str, Event]:
    """The event that called each sub-agent, in the order of the calls."""
    return {event.agent: event for turn in episode.turns for event in turn.events if event.kind == "spawn"}


def earned_by(episode: Episode, agent: str) -> float:
    """The sum of an agent's rewards: its own, or the team's where agents are not paid individually.

    Raises:
        ValueError: It is infinite.
    """
    earned = sum(turn.rewards.get(agent, 0.0) if turn.rewards else turn.reward for turn in episode.turns)
    if math.isinf(earned):
        raise ValueError(
            f"task {episode.item_id!r} paid {agent!r} {earned}; a reward is finite, or NaN where there is no score"
        )
    return earned


def refuse_bad_rewards(groups: Sequence[Group], *, decisions: bool) -> None:
    """Raises ValueError for an infinite reward, and with `decisions` for a group that has no decision points."""
    for group in groups:
        tried = [branch.rewards for decision in group.decisions for branch in decision.branches]
        for reward in (r for rewards in [*(e.rewards for e in group.episodes), *tried] for r in rewards):
            if math.isinf(reward):
                raise ValueError(
                    f"task {group.item_id!r} was paid {reward}; a reward is finite, or NaN where there is no score"
                )
        if decisions and group.episodes and not group.decisions:
            raise ValueError(
                f"the group of task {group.item_id!r} holds only trajectories, and this learner gives credit at "
                "decision points; play it with learner.rollout.play(...), as the trainer does"
            )
