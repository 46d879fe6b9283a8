"""A custom learner in one file, outside of the package: imitate the best episode of every group.

    llm-dec-pomdp bench quick --algorithm examples.best_of_group:BestOfGroup

It computes the advantages; `PolicyLearner` updates the weights, saves and reports. An installed package announces its
learner with the entry point `[project.entry-points."llm_dec_pomdp.algorithms"]  best = "my_package:BestOfGroup"`.
"""

from collections.abc import Sequence
from math import isnan

from llm_dec_pomdp.algorithms.base import Metrics
from llm_dec_pomdp.algorithms.learner import PolicyLearner
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.types import Group


class BestOfGroup(PolicyLearner):
    """A learner that imitates the best episode of each group (rejection sampling fine-tuning)."""

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Take one step on the best episodes: all their completions have advantage 1, which is maximum likelihood."""
        scored = [[episode for episode in group.episodes if not isnan(episode.total)] for group in groups]
        best = [max(episodes, key=lambda e: e.total) for episodes in scored if episodes]
        turns = [turn for episode in best for turn in episode.turns]
        samples = [Sample(agent, text, advantage=1.0) for turn in turns for agent, text in turn.actions.items()]
        return self.step(samples, groups)
