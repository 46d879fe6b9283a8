"""Samples of an update: texts with their advantages, weighed and put in batches."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..seeding import generator
from ..types import Completion, Decision, Group, RolloutPlan
from .advantages import (
    Array,
    Choices,
    counterfactual_advantages,
    group_advantages,
    marginal_advantages,
    returns,
)
from .options import MAGRPOConfig


@dataclass(frozen=True, slots=True)
class Sample:
    """One agent's text and what is learnt from it.

    Attributes:
        agent: Who said it.
        completion: What was said.
        advantage: Of this text for this agent.
        reach: Share of the trajectories in which it was said; below 1 in trees, whose later turns have more texts.
        weight: In the mean of the agent's objective.
        number: Its place among the samples of an update.
        group: Place of its group there.
    """

    agent: str
    completion: Completion
    advantage: float
    reach: float = 1.0
    weight: float = 0.0
    number: int = 0
    group: int = 0


def returns_of_decision(decision: Decision, gamma: float) -> Array:
    """Returns [B] of the joint actions of a decision point."""
    return np.array([returns(branch.rewards, gamma)[0] for branch in decision.branches])


def of_trajectories(group: Group, values: Sequence[Array], config: MAGRPOConfig) -> Iterator[Sample]:
    """Trajectories side by side: one advantage per trajectory and turn, shared by all agents.

    Args:
        group: Its episodes.
        values: R_t^(g), one array [G, T].
        config: Baseline and scale.
    """
    [table] = values
    for t in range(table.shape[1]):
        advantages = group_advantages(table[:, t].tolist(), config.advantage)  # (advantage)
        for episode, advantage in zip(group.episodes, advantages.tolist(), strict=True):
            for turn in episode.turns[t : t + 1]:  # none where it has ended
                for agent, completion in turn.actions.items():
                    yield Sample(agent, completion, advantage)


def of_decisions(group: Group, values: Sequence[Array], config: MAGRPOConfig) -> Iterator[Sample]:
    """Decision points with several joint actions each: an advantage per agent and text.

    Args:
        group: Its decision points.
        values: Returns of the joint actions [B], one array per decision point.
        config: Whose merit a return is; baseline and scale.
    """
    for decision, mine in zip(group.decisions, values, strict=True):
        choices: Choices = np.array([branch.choice for branch in decision.branches], dtype=np.int64)
        choices = choices.reshape(len(mine), len(decision.actions))
        if config.credit == "joint":
            table = marginal_advantages(choices, mine, decision.drawn, config.advantage)  # (advantage)
        else:
            table = counterfactual_advantages(choices, mine, decision.drawn)
        for (agent, texts), advantages in zip(decision.actions.items(), table.tolist(), strict=True):
            for completion, advantage in zip(texts[: decision.drawn], advantages, strict=True):
                yield Sample(agent, completion, advantage, reach=decision.reach)


def weigh(samples: Sequence[Sample], config: MAGRPOConfig) -> list[Sample]:
    """Give every sample its weight in the mean of its agent's objective."""
    weighed: list[Sample] = []
    for agent in dict.fromkeys(s.agent for s in samples):
        mine = [s for s in samples if s.agent == agent]
        tokens = sum(s.reach * len(s.completion.token_ids) for s in mine)
        texts = sum(s.reach for s in mine)
        for s in mine:
            if config.ratio == "token" and config.average == "tokens":
                weight = s.reach / tokens
            else:
                weight = s.reach / (texts * (len(s.completion.token_ids) if config.ratio == "token" else 1))
            weighed.append(dataclasses.replace(s, weight=weight))
    return weighed


def in_minibatches(samples: Sequence[Sample], count: int, seed: int) -> list[list[Sample]]:
    """Cut the samples into at most `count` parts of whole prompts, each with its share of every agent's.

    Args:
        samples: Of one policy.
        count: How many parts, if there are as many prompts.
        seed: The order of the prompts follows from it.
    """
    if count == 1:
        return [list(samples)]
    prompts: dict[str, dict[tuple[int, ...], list[Sample]]] = {}
    for s in samples:
        prompts.setdefault(s.agent, {}).setdefault(s.completion.prompt_ids, []).append(s)
    parts: list[list[Sample]] = [[] for _ in range(count)]
    for agent, mine in prompts.items():
        blocks = [mine[key] for key in sorted(mine)]
        order: list[int] = generator(seed, agent).permutation(len(blocks)).tolist()
        cuts = [len(order) * k // count for k in range(count + 1)]
        for part, (first, last) in zip(parts, itertools.pairwise(cuts), strict=True):
            part += [s for i in order[first:last] for s in blocks[i]]
    return [part for part in parts if part]


def in_forward_passes(samples: Sequence[Sample], size: int) -> list[list[Sample]]:
    """Batches of `size`, same prompts together."""
    ordered = sorted(samples, key=lambda s: (len(s.completion.prompt_ids), s.completion.prompt_ids))
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]


def refuse_missing_logprobs(samples: Sequence[Sample]) -> None:
    """Every token has the log-probability under which it was drawn.

    Raises:
        ValueError: Whose text has not.
    """
    for s in samples:
        tokens, noted = len(s.completion.token_ids), len(s.completion.logprobs)
        if noted != tokens:
            raise ValueError(
                f"a text of {s.agent!r} has {tokens} tokens and {noted} log-probabilities; a policy that is trained "
                "records one for every token it samples (Completion.logprobs)"
            )


def refuse_bad_rewards(groups: Sequence[Group], plan: RolloutPlan) -> None:
    """Rewards are finite or NaN, and what the plan asked for is there.

    Raises:
        ValueError: The task, and what to do.
    """
    for group in groups:
        tried = [branch.rewards for decision in group.decisions for branch in decision.branches]
        for reward in (r for rewards in [*(e.rewards for e in group.episodes), *tried] for r in rewards):
            if math.isinf(reward):
                raise ValueError(
                    f"task {group.item_id!r} was paid {reward}; a reward is finite, or NaN where there is no score"
                )
        if plan != RolloutPlan() and group.episodes and not group.decisions:
            raise ValueError(
                f"the group of task {group.item_id!r} holds trajectories alone; play it with "
                "collect(..., plan=learner.rollout), as the trainer does"
            )
