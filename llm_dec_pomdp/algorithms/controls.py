"""Controls: learners that cannot learn from the reward, to compare real ones with."""

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

    least_group_size = 2  # type: ignore[assignment]  # so that returns can change places


class Shuffled(MAGRPO):
    """MAGRPO whose returns change places within their group before advantages are computed.

    Rollouts, sizes of the advantages and number of updates are those of MAGRPO; only which text earned what is lost. A
    trajectory takes all returns of another one, turn by turn and past its own end, so that its length says nothing;
    joint actions of a decision point change places among themselves. Whatever such a team gains does not come from the
    reward: with a baseline that centres the group ("std", "mean", "leave_one_out") the mean advantage of every text is
    0. Takes every option of MAGRPO.
    """

    Config = ShuffledConfig

    def returns(self, group: Group) -> list[Array]:
        """Those of MAGRPO, in an order that follows from the seed of the group."""
        random = generator(group.episodes[0].seed, "shuffled")
        return [random.permutation(values) for values in super().returns(group)]


class ShuffledMGRPO(MGRPO):
    """M-GRPO whose rewards change places within their query: among main trajectories, and among invocations."""

    def trajectories(self, group: Group) -> list[Trajectory]:
        """Those of M-GRPO, with rewards in an order that follows from the seed of the group."""
        real = super().trajectories(group)
        for main in (True, False):
            places = [i for i, t in enumerate(real) if (t.kind == MAIN) == main]
            random = generator(group.episodes[0].seed, "shuffled", int(main))
            rewards = random.permutation([real[i].reward for i in places]).tolist()
            for i, reward in zip(places, rewards, strict=True):
                real[i] = replace(real[i], reward=reward)
        return real
