"""Comparisons over seeds and tasks: interquartile mean, probability of improvement, performance profiles, differences.

The first three follow "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (arXiv:2108.13264), with
the definitions of its library `rliable`. Scores are arrays of shape (seeds, environments), in % of the maximum. The
returns of one environment are a table of seeds and tasks, with the intervals of `intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..seeding import generator
from .intervals import LEAST_SEEDS, Estimate, table_estimate, within_percent

Scores = NDArray[np.float64]
KeyT = TypeVar("KeyT", str, int)
_RESAMPLES = 2000


def interquartile_mean(scores: Scores) -> float:
    """Mean of the middle half of all runs of all environments (section 4.3 of the paper)."""
    ordered = np.sort(scores, axis=None)
    cut = int(0.25 * ordered.size)
    return float(ordered[cut : ordered.size - cut].mean())


def improvement_probability(ours: Scores, theirs: Scores) -> float:
    """P(X > Y): how likely a run of `ours` beats one of `theirs` on an environment drawn at random (section 4.3).

    Mann-Whitney's U over all pairs of runs of an environment, ties counted half; mean over environments.
    """
    difference = ours[:, None, :] - theirs[None, :, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def performance_profile(scores: Scores, thresholds: Scores) -> Scores:
    """Share of runs over all environments that score above each threshold (section 4.2)."""
    return (scores[None, :, :] > thresholds[:, None, None]).mean(axis=(1, 2))


def stratified(
    statistic: Callable[..., Any], *scores: Scores, seed: int = 0, resamples: int = _RESAMPLES
) -> tuple[Any, Any]:
    """95 % percentile interval of a statistic: seeds are drawn with replacement within each environment (section 4.1).

    It takes the scores of one method or of several. NaN, in its shape, where a method has fewer than three seeds.
    """
    if min(map(len, scores)) < LEAST_SEEDS:
        none = np.full_like(statistic(*scores), math.nan, dtype=np.float64)
        return none, none
    rng = generator(seed, "stratified")
    means = [
        statistic(*(np.take_along_axis(s, rng.integers(len(s), size=s.shape), axis=0) for s in scores))
        for _ in range(resamples)
    ]
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return low, high


Returns = Mapping[int, Mapping[str, float]]  # seed -> task -> return in %


def overall(returns: Returns) -> Estimate | None:
    """Mean return over seeds and the tasks that all of them have; None where there is no such task."""
    mean = over_seeds_and_tasks(list(returns.values()))
    return mean and within_percent(mean, (value for by_task in returns.values() for value in by_task.values()))


def over_seeds_and_tasks(by_seed: Sequence[Mapping[str, float]]) -> Estimate | None:
    """Mean of a number over seeds and the tasks that all of them have; None where there is no such task."""
    tasks = common(by_seed)
    return table_estimate(np.array([[by_task[task] for task in tasks] for by_task in by_seed])) if tasks else None


def difference(ours: Returns, theirs: Returns) -> Estimate | None:
    """How much more one method earns than another, in percentage points, paired over the seeds and tasks of both.

    Methods with no seed in common have a difference of their means and no interval. None where they share no task.
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
    """Mean over seeds of every task that all seeds have."""
    tasks = common(list(returns.values()))
    return {task: float(np.mean([by_task[task] for by_task in returns.values()])) for task in tasks}


def common(tables: Sequence[Mapping[KeyT, Any]]) -> list[KeyT]:
    """The keys (tasks or seeds) that all tables have, sorted."""
    return sorted(set[KeyT](tables[0]).intersection(*tables[1:])) if tables else []
