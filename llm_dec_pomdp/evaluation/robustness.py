"""Robustness: the return lost if one member of a team is changed, and the return of teams of other sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from ..types import Episode, Scale, grouped
from .intervals import Interval, mean_interval

SILENT = "silent"
MISSED = 1.0  # points; a role whose silence loses less is dispensable


@dataclass(frozen=True)
class Loss:
    """The effect of one changed member.

    Attributes:
        change: The change, such as "silent".
        role: The role of the changed member.
        value: The return of the changed team, in %.
        loss: Points lost against the intact team, over the same tasks (of a single task: over its episodes).
    """

    change: str
    role: str
    value: Interval
    loss: Interval


@dataclass(frozen=True)
class SizedReturn:
    """The return of a team of another size, in %.

    Attributes:
        size: The value of the environment's option for its size.
        trained: The return with the trained members.
        untrained: The return with the same members before training.
    """

    size: int
    trained: Interval
    untrained: Interval


@dataclass(frozen=True)
class Robustness:
    """All measured changes of one team.

    Attributes:
        intact: The return of the intact team, in %.
        losses: The effect of each changed member.
        absent: The reason why a change was not measured, by the name of the change.
        option: The option that sets the size of the environment; "" if no other size was measured.
        trained_size: The size in training; None if no other size was measured.
        sizes: Returns by size.
    """

    intact: Interval
    losses: Sequence[Loss]
    absent: Mapping[str, str]
    option: str = ""
    trained_size: int | None = None
    sizes: Sequence[SizedReturn] = ()

    @property
    def changes(self) -> list[str]:
        """Return the names of the changes in order."""
        return list(dict.fromkeys(loss.change for loss in self.losses))

    @property
    def roles(self) -> list[str]:
        """Return the names of the roles in order."""
        return list(dict.fromkeys(loss.role for loss in self.losses))

    def of(self, change: str, role: str) -> Loss | None:
        """Return the effect of a change of a role; None if it was not measured."""
        return next((loss for loss in self.losses if (loss.change, loss.role) == (change, role)), None)

    @property
    def critical(self) -> str:
        """Return the role whose silence loses most points; "" if the interval of no loss is above 0."""
        silent = [loss for loss in self.losses if loss.change == SILENT and loss.loss.low > 0]
        return max(silent, key=lambda loss: loss.loss.mean).role if silent else ""

    @property
    def dispensable(self) -> list[str]:
        """Return the roles whose silence loses less than `MISSED` points."""
        return [loss.role for loss in self.losses if loss.change == SILENT and loss.loss.mean < MISSED]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "critical": self.critical, "dispensable": self.dispensable}


def loss_between(intact: Sequence[Episode], changed: Sequence[Episode], scale: Scale) -> Interval:
    """Return the points that a changed team loses, paired by task, or by episode if there is a single task.

    Args:
        intact, changed: Episodes of the same tasks with the same seeds.
        scale: The scores that count as 0 % and 100 %.
    """
    before, after = (_by_task(episodes, scale) for episodes in (intact, changed))
    common = [task for task in before if task in after]
    if len(before) == 1 == len(common):
        pairs = list(zip(before[common[0]], after[common[0]], strict=False))
    else:
        pairs = [(_known(before[task]), _known(after[task])) for task in common]
    return mean_interval([b - a for b, a in pairs if math.isfinite(b - a)])


def _by_task(episodes: Sequence[Episode], scale: Scale) -> dict[str, list[float]]:
    """Return the returns in % of every task, NaN for episodes that could not be scored."""
    by_task = grouped(episodes, lambda episode: episode.item_id)
    return {
        task: [scale.percent(e.final.total) if e.final and e.final.scorable else math.nan for e in some]
        for task, some in by_task.items()
    }


def _known(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return fmean(known) if known else math.nan
