"""Comparisons over seeds and tasks: interquartile mean, probability of improvement, performance profiles, noise.

The first three follow "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (arXiv:2108.13264), with
the definitions of its library `rliable`. Scores are arrays of shape (seeds, environments), in % of the maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..seeding import generator
from .metrics import Interval

Scores = NDArray[np.float64]
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

    Args:
        statistic: Takes as many arrays as are given.
        scores: One array per method.
        seed: Of the resampling.
        resamples: How often.
    """
    rng = generator(seed, "stratified")
    found = [
        statistic(*(np.take_along_axis(s, rng.integers(len(s), size=s.shape), axis=0) for s in scores))
        for _ in range(resamples)
    ]
    low, high = np.percentile(found, [2.5, 97.5], axis=0)
    return low, high


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more one method earns than another, in percentage points."""

    points: Interval
    seeds: int
    tasks: int

    @property
    def within_noise(self) -> bool:
        """The interval holds 0: on these seeds and tasks nothing is shown. So it is where nothing can be resampled."""
        return not (self.points.low > 0 or self.points.high < 0)


Returns = Mapping[int, Mapping[str, float]]  # seed -> task -> return in %


def difference(ours: Returns, theirs: Returns, resamples: int = _RESAMPLES) -> Difference | None:
    """The paired difference of two methods on the same tasks and, where both have them, the same seeds.

    Seeds and tasks are resampled independently (a task is as hard for every seed), so that neither a lucky seed nor an
    easy task makes a difference. None where they share no task.

    Args:
        ours: Returns by seed and task.
        theirs: The same for the other method.
        resamples: How often.
    """
    seeds = sorted(ours.keys() & theirs.keys())
    pairs = [(ours[s], theirs[s]) for s in seeds] or [(_over_seeds(ours), _over_seeds(theirs))]
    tasks = _common([by_task for pair in pairs for by_task in pair])
    if not tasks:
        return None
    table = np.array([[a[task] - b[task] for task in tasks] for a, b in pairs])
    return Difference(_crossed(table, resamples), len(pairs), len(tasks))


def overall(returns: Returns, resamples: int = _RESAMPLES) -> Interval:
    """Mean return over seeds and the tasks that all of them have; both are resampled."""
    tasks = _common(list(returns.values()))
    if not tasks:
        return Interval(math.nan, math.nan, math.nan)
    return _crossed(np.array([[by_task[task] for task in tasks] for by_task in returns.values()]), resamples)


def _crossed(table: Scores, resamples: int) -> Interval:
    """Mean of a table (seeds, tasks) with its interval: rows and columns are drawn with replacement, independently."""
    rng = generator(0, "crossed")
    rows, columns = table.shape
    means = [
        table[rng.integers(rows, size=rows)][:, rng.integers(columns, size=columns)].mean() for _ in range(resamples)
    ]
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(table.mean()), float(low), float(high))


def _over_seeds(returns: Returns) -> Mapping[str, float]:
    """Mean over seeds of every task that all seeds have."""
    tasks = _common(list(returns.values()))
    return {task: float(np.mean([by_task[task] for by_task in returns.values()])) for task in tasks}


def _common(returns: Sequence[Mapping[str, float]]) -> list[str]:
    """The tasks that all of them have, sorted."""
    return sorted(task for task in returns[0] if all(task in by_task for by_task in returns)) if returns else []
