"""Comparisons over seeds and tasks: interquartile mean, probability of improvement, performance profiles, differences.

The first three follow "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (arXiv:2108.13264), with
the definitions of its library `rliable`. Scores are arrays of shape (seeds, environments), in % of the maximum.
Differences compare the returns of one environment, a table of seeds and tasks, with the intervals of `intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..seeding import generator
from .intervals import LEAST_SEEDS, LEVEL, Estimate, Interval, percent_interval, table_estimate, within_percent

Scores = NDArray[np.float64]
KeyT = TypeVar("KeyT", str, int)
_RESAMPLES = 400


def interquartile_mean(scores: Scores) -> float:
    """Return the mean of the middle half of all runs of all environments (section 4.3 of the paper)."""
    ordered = np.sort(scores, axis=None)
    cut = int(0.25 * ordered.size)
    return float(ordered[cut : ordered.size - cut].mean())


def improvement_probability(ours: Scores, theirs: Scores) -> float:
    """Return P(X > Y), the chance that a run of `ours` beats one of `theirs` on a random environment (section 4.3).

    This is Mann-Whitney's U over all pairs of runs of an environment, with ties counted half, averaged over
    environments.
    """
    difference = ours[:, None, :] - theirs[None, :, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def performance_profile(scores: Scores, thresholds: Scores) -> Scores:
    """Return the share of all runs that score above each threshold (section 4.2), with a 95 % interval.

    The result has shape (3, thresholds): the shares, and the lower and upper ends of their score intervals (NaN below
    three seeds). The intervals treat all runs as one sample, which is conservative for several environments.
    """
    above = 100.0 * (scores.reshape(1, -1) > thresholds[:, None])
    shares = [percent_interval(row.tolist()) for row in above]
    known = len(scores) >= LEAST_SEEDS
    low, high = ([getattr(share, end) if known else math.nan for share in shares] for end in ("low", "high"))
    return np.array([[share.mean for share in shares], low, high]) / 100


def interquartile_interval(scores: Scores, *, resamples: int = _RESAMPLES) -> Interval:
    """Return the interquartile mean and its 95 % interval over seeds; the bounds are NaN below three seeds.

    The interval is a t interval with the degrees of freedom of the seeds of one environment. Its standard error comes
    from the stratified bootstrap of section 4.1, which resamples seeds with replacement within each environment. It is
    multiplied by sqrt(n / (n - 1)), because n resampled seeds vary less than the original ones. Percentiles of this
    bootstrap are not used: with three seeds they contain the mean in only 58 to 87 % of cases.
    """
    mean, seeds = interquartile_mean(scores), len(scores)
    if seeds < LEAST_SEEDS:
        return Interval(mean, math.nan, math.nan)
    rng = generator(0, "stratified")
    draws = (np.take_along_axis(scores, rng.integers(seeds, size=scores.shape), axis=0) for _ in range(resamples))
    spread = float(np.std([interquartile_mean(sample) for sample in draws], ddof=1))
    half = float(stdtrit(seeds - 1, 1 - LEVEL / 2)) * math.sqrt(seeds / (seeds - 1)) * spread
    return within_percent(Interval(mean, mean - half, mean + half), scores.ravel())


Returns = Mapping[int, Mapping[str, float]]  # seed -> task -> return in %


def overall(returns: Returns) -> Estimate | None:
    """Return the mean return over seeds and the tasks common to all seeds; None if there is no such task."""
    mean = over_seeds_and_tasks(list(returns.values()))
    seen = [value for by_task in returns.values() for value in by_task.values()]
    if mean is None or mean.seeds > 1:
        return mean and within_percent(mean, seen)
    alone = percent_interval(seen)
    return replace(mean, low=alone.low, high=alone.high)


def over_seeds_and_tasks(by_seed: Sequence[Mapping[str, float]]) -> Estimate | None:
    """Return the mean over seeds and the tasks common to all seeds; None if there is no such task."""
    tasks = common(by_seed)
    return table_estimate(np.array([[by_task[task] for task in tasks] for by_task in by_seed])) if tasks else None


def difference(ours: Returns, theirs: Returns) -> Estimate | None:
    """Return the mean return of `ours` minus `theirs`, in percentage points, paired over common seeds and tasks.

    Without a common seed, the result is the difference of the means and has no interval. Without a common task, it is
    None.
    """
    seeds = sorted(ours.keys() & theirs.keys())
    pairs = [(ours[s], theirs[s]) for s in seeds] or [(_over_seeds(ours), _over_seeds(theirs))]
    tasks = common([by_task for pair in pairs for by_task in pair])
    if not tasks:
        return None
    table = np.array([[a[task] - b[task] for task in tasks] for a, b in pairs])
    if not seeds:
        return Estimate(float(table.mean()), math.nan, math.nan, 0, len(tasks))
    return table_estimate(table)


def _over_seeds(returns: Returns) -> Mapping[str, float]:
    """Return the mean over seeds of every task that all seeds have."""
    tasks = common(list(returns.values()))
    return {task: float(np.mean([by_task[task] for by_task in returns.values()])) for task in tasks}


def common(tables: Sequence[Mapping[KeyT, Any]]) -> list[KeyT]:
    """Return the keys (tasks or seeds) that all tables have, sorted."""
    return sorted(set[KeyT](tables[0]).intersection(*tables[1:])) if tables else []
