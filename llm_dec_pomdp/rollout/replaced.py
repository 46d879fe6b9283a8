"""Dynamic sampling (DAPO, arXiv:2503.14476): groups without signal are replaced by groups of other tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP
from ..seeding import derive, generator
from ..types import Group
from .base import Rollout


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another rollout, whose groups without signal are replaced by groups of randomly sampled tasks.

    Attributes:
        inner: The rollout that plays the groups.
        silent: A function that returns whether a group has no signal, such as equal returns.
        times: Maximum number of replacements of a group. The last group is kept, with or without a signal.
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
        """Play every task; see `Rollout`.

        A group contains the groups that it replaced (`Group.replaced`), so that reports include their returns and
        costs.
        """
        groups = list(self.inner.play(env, policy, item_ids, seeds, sampling, width))
        for attempt in range(self.times):
            places = [place for place, group in enumerate(groups) if self.silent(group)]
            if not places:
                break
            drawn = [derive(seeds[place], "replaced", attempt) for place in places]
            ids = [env.items[int(generator(seed, "task").integers(len(env.items)))].id for seed in drawn]
            for place, group in zip(places, self.inner.play(env, policy, ids, drawn, sampling, width), strict=True):
                silent = groups[place]
                groups[place] = replace(group, replaced=(*silent.replaced, replace(silent, replaced=())))
        return groups
