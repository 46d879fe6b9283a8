"""The contract of credit assignment, and the functions that several kinds of credit use.

Read `joint.py` first, the credit of MAGRPO.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import model_validator

from ...config import Config, Count
from ...rollout import Rollout
from ...types import Group, grouped
from ..advantages import Array, Choices, Compare, Kind, group_advantages, returns, weighted_advantages
from ..controls import BaselineScope
from ..samples import Sample

if TYPE_CHECKING:
    from ...envs.base import TextDecPOMDP


class Credit(Config, ABC):
    """Credit assignment of a learner: the rollout that it needs, and samples with advantages.

    Its fields are its options.
    """

    without_signal: Literal["count", "drop"] = "count"
    """Treatment of groups without signal, in which no completion has an advantage: they count in the mean of the
    objective (count), or are dropped from it (drop)."""
    replacements: Count = 0
    """Largest number of times that a group without signal is replaced by a group of another task, sampled at random
    (dynamic sampling: DAPO, arXiv:2503.14476). Returns and costs of the update count all sampled groups."""

    @property
    def baseline_scope(self) -> BaselineScope:
        """The returns that the baseline is computed from; see `controls`."""
        return "group"

    @property
    def least_group_size(self) -> int:
        """Smallest useful number of episodes per task: without other completions to compare with, advantages are 0."""
        return 2

    @property
    @abstractmethod
    def rollout(self) -> Rollout:
        """The rollout that plays tasks for it."""

    def incompatibility(self, env: TextDecPOMDP) -> str:
        """Return the reason why an environment cannot be played in this way, else "" (the default)."""
        return ""

    @abstractmethod
    def advantages(self, returns: Array) -> Array:
        """Return the advantages [N] of returns [N] that this credit compares with each other."""

    @abstractmethod
    def samples(self, group: Group, gamma: float, advantages: Compare | None = None) -> Iterator[Sample]:
        """Return every completion of a group with its advantage, NaN if it could not be scored.

        Args:
            group: Played by `rollout`.
            gamma: Discount between turns.
            advantages: Function from returns [N] to advantages [N]; left out, `advantages` of this credit.
        """

    def over_update(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """Return the samples of all groups of an update; a credit that compares these with each other changes them."""
        return samples


class BaselineCredit(Credit):
    """Credit with the baseline as an option; MAGRPO and its relatives differ in it."""

    advantage: Literal[Kind, "batch", "agent"] = "std"
    """Baseline and scale of the advantage: std, mean, leave_one_out, max or raw over a group; batch over all
    completions of an update; or agent over all completions of the same agent in an update. batch needs no groups (ReBN,
    arXiv:2510.01051), but has one baseline for all tasks: if returns differ more between tasks than between
    completions, little is learned. With agent, the spread of one agent's returns has no effect on another's step size
    (Dr. MAS, arXiv:2602.08847)."""

    @model_validator(mode="after")
    def _check_replacements_over_an_update(self) -> BaselineCredit:
        if self.replacements and self.advantage in ("batch", "agent"):
            raise ValueError(
                f"replacements is {self.replacements}, but advantage is {self.advantage!r}, which compares completions "
                "of different groups; set replacements to 0, or advantage to 'std'"
            )
        return self

    @property
    def baseline_scope(self) -> BaselineScope:
        """See `Credit`; raw and max do not centre advantages."""
        kinds: dict[str, BaselineScope] = {"batch": "update", "agent": "update", "raw": "nothing", "max": "nothing"}
        return kinds.get(self.advantage, "group")

    @property
    def least_group_size(self) -> int:
        """See `Credit`; 1 if advantages do not depend on the group."""
        return 1 if self.advantage in ("raw", "batch", "agent") else 2

    @property
    def kind(self) -> Kind:
        """The baseline within a group; raw for batch and agent, whose baseline follows in `over_update`."""
        return "raw" if self.advantage in ("batch", "agent") else self.advantage

    def advantages(self, returns: Array) -> Array:
        """Call `group_advantages` with the baseline `self.kind`."""
        return group_advantages(returns, self.kind)

    def over_update(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """Compute (R - mean R) / std R over all samples, weighted by `Sample.weight`, if advantage is batch (ReBN).

        The samples hold returns R. All tasks share one baseline. With agent, each agent has its own baseline. Equal
        returns have advantage 0. Texts without a score are left out of the mean.
        """
        if self.advantage not in ("batch", "agent"):
            return samples
        result = list(samples)
        by_agent = self.advantage == "agent"
        for places in grouped(range(len(samples)), lambda place: samples[place].agent if by_agent else "").values():
            compared = [samples[place] for place in places]
            values = weighted_advantages([s.advantage for s in compared], [s.weight for s in compared])
            for place, value in zip(places, values.tolist(), strict=True):
                result[place] = replace(samples[place], advantage=value)
        return result


def at_decisions(group: Group, gamma: float, advantages: Callable[[Choices, Array, int], Array]) -> Iterator[Sample]:
    """Return the samples of decision points with several joint actions: one advantage per agent and completion.

    Args:
        group: A group with decision points.
        gamma: Discount between turns.
        advantages: Function from the indices of completions [B, n], the returns of each agent [n, B] and width to
            advantages [n, width], for B joint actions, n agents, and width completions sampled per agent.

    Raises:
        ValueError: The group has no decision points.
    """
    if group.episodes and not group.decisions:
        raise ValueError(
            f"the group of task {group.item_id!r} holds only trajectories, and this learner gives credit at "
            "decision points; sample it with learner.rollout.play(...), as the trainer does"
        )
    for decision in group.decisions:
        branches, agents = decision.branches, list(decision.actions)
        choices: Choices = np.array([branch.choice for branch in branches], dtype=np.int64)
        values = np.array([[returns(b.rewards_of(agent), gamma)[0] for b in branches] for agent in agents])  # (return)
        shape = len(agents), len(branches)
        table = advantages(choices.reshape(shape[::-1]), values.reshape(shape), decision.width)
        for (agent, texts), row in zip(decision.actions.items(), table.tolist(), strict=True):
            for completion, advantage in zip(texts[: decision.width], row, strict=True):
                yield Sample(agent, completion, advantage, weight=decision.share)
