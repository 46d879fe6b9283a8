"""Sampling of training tasks by learnability: tasks that the team sometimes solves are played more often.

The learnability of a task is the variance of the returns in its last group. For returns of 0 and 1 it is p (1 - p), at
a solve rate of p: the score of SFL (Sampling for Learnability, arXiv:2408.15099). A task with equal returns, such as
one that is always or never solved, has no signal for group-relative learners, and a score of 0. SFL estimates scores
with separate episodes. This sampler uses the episodes that are trained on, as PLR does (arXiv:2010.03934). So it needs
no additional episodes, and the score of a task is as old as its last group.

Every task of an update is replaced with probability `TrainerConfig.learnability` by a task that is sampled in
proportion to the scores. The remaining tasks come from the shuffled epochs and get new scores.

The sampler changes the distribution of tasks in training. A score depends on earlier groups only, so the gradient
estimate of each group is unbiased for its task. The mean gradient, and the reported return of an update, weight tasks
by how often they are sampled. Evaluations play all tasks equally often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..envs.base import TextDecPOMDP
from ..seeding import generator
from ..types import Group


def learnability(group: Group) -> float:
    """Return the variance of the returns in a group, 0 if fewer than two episodes could be scored.

    With individual rewards it is the mean of the variances of the agents' returns. Episodes of a tree are weighted by
    `Episode.share`.
    """
    episodes = [episode for episode in group.episodes if not math.isnan(episode.total)]
    if len(episodes) < 2:
        return 0.0
    agents = {agent for episode in episodes for turn in episode.turns for agent in turn.rewards}
    own = [[sum(e.rewards_of(agent)) for e in episodes] for agent in sorted(agents)]
    returns = own or [[e.total for e in episodes]]
    shares = [episode.share for episode in episodes]
    centred = np.array(returns) - np.average(returns, axis=1, weights=shares)[:, None]
    return float(np.average(centred**2, axis=1, weights=shares).mean())


def sample_by_learnability(
    env: TextDecPOMDP, item_ids: Sequence[str], scores: Mapping[str, float], share: float, seed: int
) -> list[str]:
    """Return the tasks of an update, some of which are replaced by tasks sampled in proportion to their scores.

    Args:
        env: The training environment. Scores of tasks that it does not have are ignored.
        item_ids: The tasks of the update in the shuffled epochs.
        scores: The learnability of each task that was played.
        share: Probability with which a task is replaced. No task is replaced while all scores are 0.
        seed: Seed of the update.
    """
    known = [item.id for item in env.items if scores.get(item.id, 0.0) > 0]
    if not known:
        return list(item_ids)
    random = generator(seed, "learnability")
    replaced = random.random(len(item_ids)) < share
    weights = np.array([scores[item_id] for item_id in known])
    drawn = random.choice(len(known), size=len(item_ids), p=weights / weights.sum())
    pairs = zip(item_ids, replaced.tolist(), drawn.tolist(), strict=True)
    return [known[place] if is_replaced else item_id for item_id, is_replaced, place in pairs]
