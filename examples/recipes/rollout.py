"""Play a task again, up to twice, if all its episodes earned the same: nothing can be learnt from those.

Dynamic sampling, arXiv:2503.14476. `play` receives the environment, the policy, tasks with their seeds and the size of
a group, and returns a `Group` for each task; this one leaves the playing to another rollout.
"""

from dataclasses import dataclass, field

from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.rollout import Rollout, Trajectories
from llm_dec_pomdp.seeding import derive


@dataclass(frozen=True)
class UntilReturnsDiffer:
    inner: Rollout = field(default_factory=Trajectories)
    attempts: int = 3

    def play(self, env, policy, item_ids, seeds, sampling, width=1):
        groups = self.inner.play(env, policy, item_ids, seeds, sampling, width)
        for attempt in range(1, self.attempts):
            alike = [i for i, group in enumerate(groups) if len({e.total for e in group.episodes}) == 1]
            ids, fresh = [item_ids[i] for i in alike], [derive(seeds[i], "again", attempt) for i in alike]
            for i, group in zip(alike, self.inner.play(env, policy, ids, fresh, sampling, width), strict=True):
                groups[i] = group
        return groups


class Persistent(MAGRPO):
    """MAGRPO that learns from groups whose returns differ."""

    rollout = UntilReturnsDiffer()
