"""What a learner has to be compared with before anyone believes that it learnt from the reward."""

from __future__ import annotations

from dataclasses import replace

from ..seeding import generator
from ..types import Group
from .advantages import Array
from .magrpo import MAGRPO
from .mgrpo import MAIN, MGRPO, Trajectory
from .options import MAGRPOConfig


class ShuffledConfig(MAGRPOConfig):
    """Options of MAGRPO."""

    @property
    def least_group_size(self) -> int:
        """Two, to change places with each other."""
        return 2


class Shuffled(MAGRPO):
    """MAGRPO whose returns change places within their group before anything is learnt from them.

    Rollouts, sizes of the advantages and number of updates are those of MAGRPO; only which text earned what is lost. A
    trajectory takes all returns of another one, turn by turn and past its own end, so that its length says nothing;
    joint actions of a decision point change places among themselves. What such a team gains, it did not gain from the
    reward: with a baseline that centres the group ("std", "mean", "leave_one_out") its mean advantage is 0 whatever
    was said. Takes every option of MAGRPO.
    """

    Config = ShuffledConfig

    def returns(self, group: Group) -> list[Array]:
        """Those of MAGRPO in an order that follows from the seed of the group's episodes, and so of the run."""
        random = generator(group.episodes[0].seed, "shuffled")
        return [random.permutation(values) for values in super().returns(group)]


class ShuffledMGRPO(MGRPO):
    """M-GRPO whose rewards change places within their query before anything is learnt from them: a control.

    Those of main trajectories among themselves, and those of invocations; what is gained is not learnt from rewards.
    """

    def trajectories(self, group: Group) -> list[Trajectory]:
        """Those of M-GRPO, with rewards in an order that follows from the seed of the group's episodes."""
        real = super().trajectories(group)
        for main in (True, False):
            places = [i for i, t in enumerate(real) if (t.kind == MAIN) == main]
            random = generator(group.episodes[0].seed, "shuffled", int(main))
            rewards = random.permutation([real[i].reward for i in places]).tolist()
            for i, reward in zip(places, rewards, strict=True):
                real[i] = replace(real[i], reward=reward)
        return real
