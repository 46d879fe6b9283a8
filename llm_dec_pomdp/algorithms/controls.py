"""Controls: learners that cannot learn from the reward, to compare real ones with.

`shuffled` makes the control of any learner; as an algorithm it is called NAME_shuffled, and `shuffled` that of magrpo.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..types import Group
from .base import Algorithm, Metrics
from .magrpo import MAGRPO


class Unlinked(Algorithm):
    """A class before a learner among the bases of its control: lets it learn from groups whose texts earned nothing.

    Rollouts, sizes of the advantages and number of updates are those of the learner; only which text earned what is
    lost, see `exchange`. So whatever such a team gains does not come from the reward.
    """

    def update(self, groups: Sequence[Group]) -> Metrics:
        """As the learner, from other groups."""
        return super().update(self.unlinked(groups))


@functools.cache
def shuffled(kind: Any) -> Any:
    """The control of a class of learners; it takes the same options."""
    about = f"The control of {kind.__name__}: whatever it gains does not come from the reward."
    return type(kind)(f"Shuffled{kind.__name__}", (Unlinked, kind), {"__doc__": about, "__module__": __name__})


class Shuffled(Unlinked, MAGRPO):
    """The control of magrpo: its returns change places within their group (NAME_shuffled is the control of NAME)."""
