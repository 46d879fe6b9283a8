"""Base of the learners with one updater per policy, and the metrics that their updates report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..agents.base import Sampling, Team
from ..types import Group
from .base import Algorithm, Metrics
from .diagnostics import describe, spent
from .options import UpdaterOptions
from .samples import Sample
from .updater import Updater, step_updaters, updaters_of


class PolicyLearner(Algorithm):
    """A learner that computes advantages; one `Updater` for each policy then updates the weights.

    Args:
        team: The team that acts and is trained; policies that cannot be trained stay fixed. With beta above 0, the
            current team is also the reference.
        sampling: Sampling of completions; its temperature is part of the policy that is trained.
        config: Options.

    Attributes:
        learning: The agents whose policies are trained.
    """

    Config: ClassVar[type[Any]] = UpdaterOptions
    updater: type[Updater] = Updater
    other_updater: ClassVar[type[Updater] | None] = None  # class for all policies but the first; None: the same

    def __init__(self, team: Team, sampling: Sampling, config: Any = None) -> None:
        super().__init__(team, sampling, config)
        self.updaters = updaters_of(team, sampling.temperature, self.config, self.updater, self.other_updater)
        self.learning = {agent for updater in self.updaters for agent in updater.agents}

    def step(self, samples: Sequence[Sample], groups: Sequence[Group]) -> Metrics:
        """Run a step of every policy on its own samples; return the means of the metrics of `Updater.step`.

        Args:
            samples: Texts with advantages.
            groups: The groups of the samples; the seed of the first episode determines the order of the minibatches.
        """
        return step_updaters(self.updaters, samples, first_seed(groups))

    def report(
        self, samples: Sequence[Sample], groups: Sequence[Group], updaters: Sequence[Updater] | None = None
    ) -> Metrics:
        """Return the metrics of the samples (`diagnostics.describe`), and the costs of playing the groups.

        Args:
            samples: As given to `step`.
            groups: Groups that were played.
            updaters: Updaters that stepped; all when left out.
        """
        stepped = self.updaters if updaters is None else updaters
        trainer = {place: logprobs for updater in stepped for place, logprobs in updater.logprobs.items()}
        return describe(samples, len(groups), trainer) | spent(groups)


def first_seed(groups: Sequence[Group]) -> int:
    """Return the seed of the first episode; 0 if there is none."""
    return next((episode.seed for group in groups for episode in group.episodes), 0)
