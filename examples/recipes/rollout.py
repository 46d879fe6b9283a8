"""A custom rollout: play a task again, up to twice, if all its episodes have the same return (no gradient).

This is dynamic sampling, arXiv:2503.14476. `play` receives the environment, the policy, tasks with their seeds and the
group size, and returns a `Group` for each task. This rollout calls another rollout to play.
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
    """MAGRPO on groups whose returns differ."""

    rollout = UntilReturnsDiffer()
