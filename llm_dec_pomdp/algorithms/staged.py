"""Stages of training of the same team in one run: imitation and then reinforcement learning, or one turn and then two.

A stage may have its own learner, its own environment, or both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..agents.base import Policy
from ..rollout import Rollout
from ..types import Group
from .base import Algorithm, Metrics

if TYPE_CHECKING:
    from ..envs.base import TextDecPOMDP


class Stage(NamedTuple):
    """A learner, the number of updates, and the environment; the last stage lasts until the end of the run.

    Attributes:
        learner: The learner. Stages with the same object continue it, with its optimizer and its reference.
        updates: Number of updates of the stage.
        env: The training environment of the stage, under the protocol of the team; None: the one of the run.
    """

    learner: Algorithm
    updates: int
    env: TextDecPOMDP | None = None


class Staged(Algorithm):
    """An algorithm that delegates sampling and updates to the learner of the current stage.

    A learner that follows another one is reset at the start of its stage (`Algorithm.reset_optimizer`): the team at
    that time becomes its reference, and a critic with its own body starts with the weights of the team.

    Args:
        stages: The stages in order, all with the same team.

    Attributes:
        team: The team of all stages.
        updates: Number of updates so far, in all stages.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        last = stages[-1].learner
        super().__init__(last.team, last.sampling, last.config)
        self.stages = list(stages)
        self.updates = 0

    @property
    def number(self) -> int:
        """Number of the current stage, from 0."""
        ends = [sum(stage.updates for stage in self.stages[: k + 1]) for k in range(len(self.stages) - 1)]
        return sum(self.updates >= end for end in ends)

    @property
    def policy(self) -> Policy:
        """The policy that acts in the current stage."""
        return self.stages[self.number].learner.policy

    @property
    def rollout(self) -> Rollout:
        """The rollout of the current stage."""
        return self.stages[self.number].learner.rollout

    def training_env(self, env: TextDecPOMDP) -> TextDecPOMDP:
        """Return the environment of the current stage."""
        return self.stages[self.number].env or env

    def check_compatible(self, env: TextDecPOMDP) -> None:
        """Raise ConfigError if one of the stages cannot learn in its environment."""
        for stage in self.stages:
            stage.learner.check_compatible(stage.env or env)

    def expect(self, updates: int, *, stale: bool = False) -> None:
        """Set the number of updates of every learner; the last stage gets the remaining ones.

        Raises:
            ValueError: With staleness, a stage would be trained on samples of the stage before.
        """
        if stale:
            raise ValueError(
                "staleness is above 0, but a stage cannot be trained on texts of the stage before; set it to 0"
            )
        left = updates - sum(stage.updates for stage in self.stages[:-1])
        counts = [*(stage.updates for stage in self.stages[:-1]), left]
        for learner in self._learners:
            pairs = zip(self.stages, counts, strict=True)
            learner.expect(sum(count for stage, count in pairs if stage.learner is learner))

    def scale_learning_rates(self, factor: float) -> None:
        """Multiply the learning rates of all stages by a factor."""
        for stage in self.stages:
            stage.learner.scale_learning_rates(factor)

    def learning_rates(self) -> dict[str, float]:
        """Return the learning rates of the current stage."""
        return self.stages[self.number].learner.learning_rates()

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Run an update of the current stage; the metric `stage` is its number, from 1."""
        number = self.number
        learner = self.stages[number].learner
        metrics = learner.update(groups)
        self.updates += 1
        if self.stages[self.number].learner is not learner:
            self.stages[self.number].learner.reset_optimizer()
        return {**metrics, "stage": float(number + 1)}

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all learners, and the number of updates."""
        return {"updates": self.updates, "stages": [learner.state_dict() for learner in self._learners]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.updates = state["updates"]
        for learner, saved in zip(self._learners, state["stages"], strict=True):
            learner.load_state_dict(saved)

    @property
    def _learners(self) -> list[Algorithm]:
        """The different learners, in the order of their first stages."""
        return list({id(stage.learner): stage.learner for stage in self.stages}.values())
