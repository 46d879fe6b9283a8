"""The contract of credit, and what several ways to give it share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...config import Config
from ...rollout import Rollout
from ...types import Group
from ..advantages import Array, Choices, Kind, returns, weighted_advantages
from ..exchange import Compared
from ..samples import Sample

if TYPE_CHECKING:
    from ...envs.base import TextDecPOMDP


class Credit(Config, ABC):
    """How a learner says what each text is worth: what is played for that, and samples with advantages.

    Its fields are its options.
    """

    @property
    def compared(self) -> Compared:
        """With what a return is compared; for controls, see `exchange`."""
        return "group"

    @property
    def least_group_size(self) -> int:
        """Fewest episodes per task to learn anything from: a text that is compared with nothing has advantage 0."""
        return 2

    @property
    @abstractmethod
    def rollout(self) -> Rollout:
        """How tasks are played."""

    def misfit(self, env: TextDecPOMDP) -> str:
        """Why an environment cannot be played in this way; "" (the default) where it can."""
        return ""

    @abstractmethod
    def samples(self, group: Group, gamma: float) -> Iterator[Sample]:
        """Every text of a group with its advantage, NaN where it could not be scored.

        Args:
            group: Played by `rollout`.
            gamma: Discount between turns.
        """

    def over_update(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """The samples of all groups of an update, for credit that compares these with each other."""
        return samples


class BaselineCredit(Credit):
    """Credit whose baseline is an option: what MAGRPO and its relatives differ in."""

    advantage: Kind | Literal["batch"] = "std"
    """Baseline and scale of the advantage: std, mean, leave_one_out, max or raw over a group; or batch, over all texts
    of an update, which needs no groups (ReBN, arXiv:2510.01051), but has one baseline for all tasks: where these differ
    in what they pay by more than texts do, little is learnt."""

    @property
    def compared(self) -> Compared:
        """By the baseline: nothing is centred under raw and max."""
        kinds: dict[str, Compared] = {"batch": "update", "raw": "nothing", "max": "nothing"}
        return kinds.get(self.advantage, "group")

    @property
    def least_group_size(self) -> int:
        """One, where nothing of the group is compared."""
        return 1 if self.advantage in ("raw", "batch") else 2

    @property
    def kind(self) -> Kind:
        """The baseline within a group; with batch none yet, see `over_update`."""
        return "raw" if self.advantage == "batch" else self.advantage

    def over_update(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """With batch, (R - mean R) / std R of all samples, which hold returns, each by its share (ReBN).

        One number is the baseline of all tasks. Where all returns are equal the advantages are 0; texts without a score
        are left out of the mean.
        """
        if self.advantage != "batch":
            return samples
        values = weighted_advantages([s.advantage for s in samples], [s.share for s in samples])
        return [replace(s, advantage=value) for s, value in zip(samples, values.tolist(), strict=True)]


def at_decisions(group: Group, gamma: float, advantages: Callable[[Choices, Array, int], Array]) -> Iterator[Sample]:
    """Samples of decision points at which several joint actions were tried: an advantage per agent and text.

    Args:
        group: Its decision points.
        gamma: Discount between turns.
        advantages: Of which texts were said [B, n], what that returned to each agent [n, B], and the number of texts
            that each agent drew.

    Raises:
        ValueError: The group has no decision points.
    """
    if group.episodes and not group.decisions:
        raise ValueError(
            f"the group of task {group.item_id!r} holds only trajectories, and this learner gives credit at "
            "decision points; play it with learner.rollout.play(...), as the trainer does"
        )
    for decision in group.decisions:
        branches, agents = decision.branches, list(decision.actions)
        choices: Choices = np.array([branch.choice for branch in branches], dtype=np.int64)
        values = np.array([[returns(b.rewards_of(agent), gamma)[0] for b in branches] for agent in agents])  # (return)
        shape = len(agents), len(branches)
        table = advantages(choices.reshape(shape[::-1]), values.reshape(shape), decision.width)
        for (agent, texts), row in zip(decision.actions.items(), table.tolist(), strict=True):
            for completion, advantage in zip(texts[: decision.width], row, strict=True):
                yield Sample(agent, completion, advantage, share=decision.share)
