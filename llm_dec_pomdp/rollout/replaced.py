"""Groups that teach nothing are played again on other tasks: dynamic sampling (DAPO, arXiv:2503.14476)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP
from ..seeding import derive, generator
from ..types import Cost, Group
from .base import Rollout


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another rollout, whose groups without signal are replaced by groups of tasks drawn at random.

    Attributes:
        inner: Plays the groups.
        silent: Whether nothing can be learnt from a group.
        times: How often a group is replaced at most; the last one stays, whatever it teaches.
    """

    inner: Rollout
    silent: Callable[[Group], bool]
    times: int

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 1,
    ) -> list[Group]:
        """See `Rollout`; what was spent on groups that were replaced counts with those that took their place."""
        groups = list(self.inner.play(env, policy, item_ids, seeds, sampling, width))
        for attempt in range(self.times):
            places = [place for place, group in enumerate(groups) if self.silent(group)]
            if not places:
                break
            drawn = [derive(seeds[place], "replaced", attempt) for place in places]
            ids = [env.items[int(generator(seed, "task").integers(len(env.items)))].id for seed in drawn]
            for place, group in zip(places, self.inner.play(env, policy, ids, drawn, sampling, width), strict=True):
                spent = zip(group.extra, groups[place].cost, strict=True)
                groups[place] = replace(group, extra=Cost(*(a + b for a, b in spent)))
        return groups
