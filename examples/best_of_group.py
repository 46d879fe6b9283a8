"""A learner of one's own, in one file and from outside the package: imitate the best episode of every group.

    llm-dec-pomdp bench quick --algorithm examples.best_of_group:BestOfGroup

It says which text is worth what; how weights move by it is left to `Updater`, as in the learners of the package. An
installed package announces its learner instead, with the entry point
`[project.entry-points."llm_dec_pomdp.algorithms"]  best-of-group = "my_package:BestOfGroup"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.base import Metrics, Prompting
from llm_dec_pomdp.algorithms.options import UpdaterOptions
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.algorithms.updater import step_all, updaters_of
from llm_dec_pomdp.types import Group


class BestOfGroup(Prompting):
    """Raises the likelihood of each group's best texts (rejection sampling fine-tuning)."""

    protocol = "parallel"
    Config = UpdaterOptions

    def __init__(self, team: Team, sampling: Sampling, config: UpdaterOptions) -> None:
        super().__init__(team, sampling)
        self.updaters = updaters_of(team, sampling.temperature, config)

    def update(self, groups: Sequence[Group]) -> Metrics:
        """One step on the best episodes: every text of theirs has advantage 1, which is maximum likelihood."""
        scored = [[episode for episode in group.episodes if not isnan(episode.total)] for group in groups]
        best = [max(episodes, key=lambda e: e.total) for episodes in scored if episodes]
        turns = [turn for episode in best for turn in episode.turns]
        samples = [Sample(agent, said, advantage=1.0) for turn in turns for agent, said in turn.actions.items()]
        return step_all(self.updaters, samples, seed=groups[0].episodes[0].seed)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"updaters": [updater.state_dict() for updater in self.updaters]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""
        for updater, saved in zip(self.updaters, state["updaters"], strict=True):
            updater.load_state_dict(saved)
