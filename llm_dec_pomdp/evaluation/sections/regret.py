"""Regret: the optimum minus the mean return, for environments whose optimum is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...envs.base import TextDecPOMDP
from ...types import Group
from ..intervals import LEAST_SEEDS, Interval, mean_interval
from . import Section, Seeds, Value


class Regret(Section):
    """The table of the regret, in the unit of the problem and in % of its scale."""

    title = "Regret"
    note = (
        "Regret: the mean return of an optimal team minus the mean return. Regret %: the regret divided by the "
        "distance from the return that counts as 0 % to the return that counts as 100 %. Intervals are 95 % t "
        "intervals, over the seeds or over the episodes of one seed."
    )
    digits = 3

    def measure(self, env: TextDecPOMDP, groups: Sequence[Group]) -> Mapping[str, float | Interval]:
        """Return the mean return of a seed with its interval over episodes, the regret, and the optimum."""
        totals = [e.total for group in groups for e in group.episodes if not math.isnan(e.total)]
        known = env.facts
        if known.optimum is None or not totals:
            return {}
        earned = mean_interval(totals)
        return {
            "return": earned,
            "regret": Interval(known.optimum - earned.mean, known.optimum - earned.high, known.optimum - earned.low),
            "optimum": known.optimum,
            "scale": known.score_scale.high - known.score_scale.low,
            "episodes": float(len(totals)),
        }

    def show(self, seeds: Seeds) -> Mapping[str, Value]:
        """Return the means with an interval over seeds, or over the episodes of a single seed."""
        optimum, scale = (seeds[0][name].mean for name in ("optimum", "scale"))
        regret, over = seeds[0]["regret"], f"{seeds[0]['episodes'].mean:.0f} episodes, one seed"
        if len(seeds) > 1:
            regret, over = mean_interval([seed["regret"].mean for seed in seeds]), f"{len(seeds)} seeds"
            if len(seeds) < LEAST_SEEDS:
                regret, over = Interval(regret.mean, math.nan, math.nan), f"{over}, no interval"
        percent = Interval(100 * regret.mean / scale, 100 * regret.low / scale, 100 * regret.high / scale)
        return {
            "optimum": optimum,
            "return": optimum - regret.mean,
            "regret": regret,
            "regret %": percent,
            "over": over,
        }
