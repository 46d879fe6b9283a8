"""What a learner has to be compared with before anyone believes that it learnt from the reward."""

from __future__ import annotations

from ..seeding import generator
from ..types import Group
from .advantages import Array
from .magrpo import MAGRPO


class Shuffled(MAGRPO):
    """MAGRPO whose returns change places within their group before anything is learnt from them.

    Rollouts, sizes of the advantages and number of updates are those of MAGRPO; only which text earned what is lost. A
    trajectory takes all returns of another one, turn by turn and past its own end, so that its length says nothing;
    joint actions of a decision point change places among themselves. What such a team gains, it did not gain from the
    reward: with a baseline that centres the group ("std", "mean", "leave_one_out") its mean advantage is 0 whatever
    was said. Takes every option of MAGRPO.
    """

    def returns(self, group: Group) -> list[Array]:
        """Those of MAGRPO in an order that follows from the seed of the group's episodes, and so of the run."""
        random = generator(group.episodes[0].seed, "shuffled")
        return [random.permutation(values) for values in super().returns(group)]
