"""When teams stop, compared with when they should."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from ...envs.base import TextDecPOMDP
from ...envs.wrappers.stopping import Stopping
from ...types import Episode, Group
from ..intervals import Interval
from . import Section

_SAME = 1e-9


class WhenStopped(Section):
    """Against the best rule where the environment knows it, else against the best of the turns that were played."""

    title = "When teams stop"
    note = (
        "Where the best rule is known: looks that were made, looks of the best rule on the same offers, and the share "
        "of episodes with fewer (too early) or more (too late). Where a task was made to be stopped: turns that were "
        "played, the share of episodes that the team ended, the share that would have earned more by an earlier end "
        "(too late), and what going on lost on average; whether it stopped too early cannot be seen."
    )
    digits = 2

    def measure(self, env: TextDecPOMDP, groups: Sequence[Group]) -> Mapping[str, float | Interval]:
        """Of `looks` and `optimal_looks`, if these are diagnostics; of the turns of a task in `Stopping`."""
        episodes = [e for group in groups for e in group.episodes if not math.isnan(e.total)]
        if episodes and {"looks", "optimal_looks"} <= set(env.diagnostics):
            return _against_the_best_rule(episodes)
        if episodes and isinstance(env.task, Stopping):
            return _against_earlier_ends(episodes)
        return {}


def _against_the_best_rule(episodes: Sequence[Episode]) -> dict[str, float]:
    facts = [e.final.diagnostics for e in episodes if e.final]
    made, best = ([one[name] for one in facts] for name in ("looks", "optimal_looks"))
    return {
        "looks": fmean(made),
        "best looks": fmean(best),
        "too early %": 100 * fmean(m < b for m, b in zip(made, best, strict=True)),
        "too late %": 100 * fmean(m > b for m, b in zip(made, best, strict=True)),
    }


def _against_earlier_ends(episodes: Sequence[Episode]) -> dict[str, float]:
    lost = [max(itertools.accumulate(e.rewards)) - e.total for e in episodes]
    stopped = [any(event.kind == "stop" for event in e.turns[-1].events) for e in episodes]
    return {
        "turns": fmean(len(e.turns) for e in episodes),
        "stopped %": 100 * fmean(stopped),
        "too late %": 100 * fmean(one > _SAME for one in lost),
        "lost by going on": fmean(lost),
    }
