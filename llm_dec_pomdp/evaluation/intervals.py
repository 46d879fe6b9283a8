"""95 % intervals and p-values of means by Student's t, and Holm's correction for many pairs.

`research/measure_intervals.py` measures the coverage of the intervals and the rate of false verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Array = NDArray[np.float64]
LEAST_SEEDS = 3  # fewest seeds for an interval over seeds and for a verdict
LEVEL = 0.05  # error rate of an interval, and of all verdicts of one table together
_EQUAL = 1e-9  # percentage points; a smaller difference counts as none


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval; the bounds are NaN if there is no interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def read(cls, value: Any) -> Interval:
        """Build an interval from plain values; a bare number has no interval."""
        return cls(**{name: float(number) for name, number in cls.plain(value).items()})

    @staticmethod
    def plain(value: Any) -> dict[str, Any]:
        """Return the fields of an interval from plain values; null becomes NaN."""
        if not isinstance(value, Mapping):
            return {"mean": value, "low": math.nan, "high": math.nan}
        fields = cast("Mapping[str, Any]", value)
        return {name: math.nan if number is None else number for name, number in fields.items()}


@dataclass(frozen=True, slots=True)
class Estimate(Interval):
    """A mean return, or a difference of mean returns, with the numbers of seeds and tasks of its interval.

    Attributes:
        mean, low, high: In % of the maximum, or in percentage points.
        seeds, tasks: Numbers of seeds and tasks that were measured.
        p: Two-sided p-value, over seeds and tasks, of the hypothesis that the mean is 0; NaN below three seeds.
    """

    seeds: int
    tasks: int
    p: float = math.nan

    @property
    def over(self) -> str:
        """The seeds and tasks of the interval in words, or the reason why there is none."""
        tasks = f"{self.tasks} task{'' if self.tasks == 1 else 's'}"
        if not self.seeds:
            return "no common seed, no interval"
        if self.seeds == self.tasks == 1 and math.isfinite(self.low):
            return "episodes of one task, one seed"
        if self.seeds == 1:
            return f"{tasks}, one seed" if math.isfinite(self.low) else f"{tasks}, one seed, no interval"
        return f"{self.seeds} seeds, {tasks}" + ("" if math.isfinite(self.low) else ", no interval")


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean of independent values and its 95 % t interval; a single value has no interval.

    Args:
        values: One value per independent unit: the tasks of one seed, or the seeds of one method.
    """
    if not values:
        return Interval(math.nan, math.nan, math.nan)
    data = np.asarray(values, dtype=np.float64)
    mean = float(data.mean())
    if len(data) == 1:
        return Interval(mean, math.nan, math.nan)
    half = float(stdtrit(len(data) - 1, 1 - LEVEL / 2)) * float(data.std(ddof=1)) / math.sqrt(len(data))
    return Interval(mean, mean - half, mean + half)


IntervalT = TypeVar("IntervalT", bound=Interval)


def within_percent(interval: IntervalT, seen: Iterable[float]) -> IntervalT:
    """Return the interval of a share in %, clipped to [0, 100] unless a value in `seen` lies outside."""
    values = [float(value) for value in seen]
    low = interval.low if min(values, default=0.0) < 0 else max(interval.low, 0.0)
    high = interval.high if max(values, default=0.0) > 100 else min(interval.high, 100.0)
    return replace(interval, low=low, high=high)


def percent_interval(values: Sequence[float]) -> Interval:
    """Return the mean of independent shares in % and its 95 % score interval.

    The interval is Wilson's (Journal of the American Statistical Association 22, 1927) with Student's t and the
    effective number of values of Korn and Graubard (Survey Methodology 24, 1998). With mean m and variance v of the
    mean, the effective number of yes-or-no answers is m (1 - m) / v. If all n values are 0, or all are 100, it is n.
    Other equal values give an interval of width 0.

    A t interval would be too short if few values differ, and would have width 0 if all values happen to be equal. For
    values outside of [0, 100] see `within_percent`.
    """
    data = np.round(np.asarray(values, dtype=np.float64) / 100, 12)  # remove rounding errors: 1 must be exactly 1
    if len(data) < 2 or data.min() < 0 or data.max() > 1:
        return within_percent(mean_interval(values), values)
    mean, variance = float(data.mean()), float(data.var(ddof=1))
    answers = mean * (1 - mean)  # the variance of yes-or-no answers
    ratio = variance / answers if answers > 0 else 1.0
    weight = float(stdtrit(len(data) - 1, 1 - LEVEL / 2)) ** 2 * ratio / len(data)
    middle = (mean + weight / 2) / (1 + weight)
    half = math.sqrt(weight * answers + weight**2 / 4) / (1 + weight)
    return within_percent(Interval(100 * mean, 100 * (middle - half), 100 * (middle + half)), values)


def table_estimate(table: Array) -> Estimate:
    """Return the mean of a table of shape (seeds, tasks), in % or in percentage points.

    With three seeds or more it has the interval and the p-value of `mixed_model`. With one seed it has the interval
    over the tasks, which does not cover other seeds, and no p-value. With two seeds it has neither.
    """
    seeds, tasks = table.shape
    if seeds == 1:
        alone = mean_interval([float(value) for value in table[0]])
        return Estimate(alone.mean, alone.low, alone.high, seeds, tasks)
    if seeds < LEAST_SEEDS:
        return Estimate(float(table.mean()), math.nan, math.nan, seeds, tasks)
    mean, half, p = (float(value) for value in mixed_model(table))
    return Estimate(mean, mean - half, mean + half, seeds, tasks, p)


def mixed_model(tables: Array) -> tuple[Array, Array, Array]:
    """Estimate means of tables whose seeds and tasks are both random (crossed random effects).

    A mean differs from 0 if three t tests agree: over the means of the seeds, over the means of the tasks, and over
    both. The last test takes the variance of a mean over n seeds and m tasks as

        var(means of the seeds) / n + var(means of the tasks) / m,

    with Satterthwaite's degrees of freedom (Biometrics Bulletin 2, 1946). The estimate counts the residual variance
    twice, so it tends to be too large. Its degrees of freedom grow with the number of tasks if the few seeds happen to
    agree. Then the test rejects too often: ten times at 0.05 / 45 with three seeds. The degrees of freedom of the other
    two tests do not depend on the data. Neither of them suffices, because each treats the other factor as fixed. With a
    single task only the test over seeds is used.

    Args:
        tables: Array of shape (..., seeds, tasks), with at least two seeds.

    Returns:
        Means, half widths of their 95 % intervals, and two-sided p-values of a mean of 0; each of shape (...). The
        interval is the longest and the p-value the largest of the three tests.
    """
    seeds, tasks = tables.shape[-2:]
    mean = tables.mean(axis=(-2, -1))
    of_seeds = tables.mean(axis=-1).var(axis=-1, ddof=1) / seeds
    of_tasks = tables.mean(axis=-2).var(axis=-1, ddof=1) / tasks if tasks > 1 else np.zeros_like(mean)
    both = of_seeds + of_tasks
    alone = [np.full_like(mean, seeds - 1), np.full_like(mean, max(tasks - 1, 1))]
    squares = of_seeds**2 / alone[0] + of_tasks**2 / alone[1]
    freedom = np.array([*alone, np.divide(both**2, squares, out=np.ones_like(squares), where=squares > 0)])
    error = np.sqrt([of_seeds, of_tasks, both])
    t = np.divide(np.abs(mean), error, out=np.full_like(error, math.inf), where=error > 0)
    p = np.where(np.abs(mean) < _EQUAL, 1.0, (2 * stdtr(freedom, -t)).max(axis=0))
    return mean, (stdtrit(freedom, 1 - LEVEL / 2) * error).max(axis=0), p


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number, so that the chance of any false verdict stays below the level.

    The i-th smallest of n is multiplied by n - i + 1, and is at least the one before (Holm, Scandinavian Journal of
    Statistics 6, 1979). NaN marks a missing test: it is kept and not counted.
    """
    order = sorted((p, place) for place, p in enumerate(p_values) if not math.isnan(p))
    corrected = list(p_values)
    largest = 0.0
    for number, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - number)))
        corrected[place] = largest
    return corrected
