"""REINFORCE with a batch baseline for a team, the simplest learner, on the public interface of the package.

    llm-dec-pomdp train dectiger-v0 --model builtin:table --algorithm examples.reinforce:Reinforce \
        --prompts 32 --group-size 1

At turn t, all completions of an episode have the advantage (R_t - mean R_t) / std R_t, where R_t is the return from
turn t on. Mean and standard deviation are over all episodes of the update, of all tasks (return batch normalization,
arXiv:2510.01051, turn by turn). One episode per task is therefore enough.
"""

from collections.abc import Sequence
from math import isnan

import numpy as np

from llm_dec_pomdp.algorithms.base import Metrics
from llm_dec_pomdp.algorithms.controls import BaselineScope
from llm_dec_pomdp.algorithms.learner import PolicyLearner
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.types import Group


class Reinforce(PolicyLearner):
    """Policy gradient with the joint return, normalized over the update."""

    @property
    def baseline_scope(self) -> BaselineScope:
        """Return the set over which `Reinforce_shuffled` shuffles rewards: the whole update."""
        return "update"

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Take one step on all completions of the episodes that could be scored."""
        episodes = [(g, e) for g, group in enumerate(groups) for e in group.episodes if not isnan(e.total)]
        samples: list[Sample] = []
        for t in range(max((len(e.turns) for _, e in episodes), default=0)):
            returns = np.array([sum(e.rewards[t:]) for _, e in episodes])  # 0 if an episode has ended
            advantages = (returns - returns.mean()) / (returns.std() + 1e-8)
            for (g, episode), advantage in zip(episodes, advantages.tolist(), strict=True):
                for turn in episode.turns[t : t + 1]:
                    samples += [Sample(a, text, advantage, group=g) for a, text in turn.actions.items()]
        return self.step(samples, groups) | self.report(samples, groups)
