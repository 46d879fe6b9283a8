"""Intervals and verdicts: by hand, and how often equal methods are called different."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from llm_dec_pomdp.benchmarks.intervals import (
    Interval,
    holm,
    mean_interval,
    mixed_model,
    table_estimate,
    within_percent,
)

COMPARISONS = 4000  # of two equal methods each

# Standard deviations in percentage points of what is paired: between seeds, between tasks, and within.
SEEDS_DIFFER_MORE = {"between_seeds": 5.0, "between_tasks": 1.0, "within": 3.0}
TASKS_DIFFER_MORE = {"between_seeds": 1.0, "between_tasks": 5.0, "within": 3.0}


def equal_methods(
    seeds: int, tasks: int, between_seeds: float, between_tasks: float, within: float
) -> NDArray[np.float64]:
    """Differences of two methods that earn the same, of shape (comparisons, seeds, tasks)."""
    rng = np.random.default_rng([seeds, tasks])
    of_seeds = rng.normal(0, between_seeds, (COMPARISONS, seeds, 1))
    of_tasks = rng.normal(0, between_tasks, (COMPARISONS, 1, tasks))
    return of_seeds + of_tasks + rng.normal(0, within, (COMPARISONS, seeds, tasks))


@pytest.mark.parametrize("regime", [SEEDS_DIFFER_MORE, TASKS_DIFFER_MORE])
@pytest.mark.parametrize("tasks", [4, 30])
@pytest.mark.parametrize("seeds", range(3, 11))
def test_equal_methods_are_seldom_called_different(seeds: int, tasks: int, regime: dict[str, float]) -> None:
    mean, half, p = mixed_model(equal_methods(seeds, tasks, **regime))
    assert (p < 0.05).mean() <= 0.08
    assert ((np.abs(mean) > half) == (p < 0.05)).all()  # the interval leaves out 0 where the p-value is small


@pytest.mark.parametrize("seeds", [1, 2])
def test_below_three_seeds_nothing_is_called_different(seeds: int) -> None:
    found = table_estimate(equal_methods(seeds, 30, **SEEDS_DIFFER_MORE)[0])
    assert math.isnan(found.p)
    assert math.isfinite(found.low) == (seeds == 1)
    assert found.over == {1: "30 tasks, one seed", 2: "2 seeds, 30 tasks, no interval"}[seeds]


def test_the_mixed_model_by_hand() -> None:
    """Means of seeds are 1, 2, 6 (variance 7), of tasks 2, 4 (variance 2): the variance of the mean is 7/3 + 2/2."""
    found = table_estimate(np.array([[0.0, 2.0], [1.0, 3.0], [5.0, 7.0]]))
    assert (found.mean, found.seeds, found.tasks) == (3.0, 3, 2)
    assert found.over == "3 seeds, 2 tasks"
    freedom = (10 / 3) ** 2 / ((7 / 3) ** 2 / 2 + 1)
    assert freedom == pytest.approx(2.985, abs=1e-3)
    assert found.high - 3 == pytest.approx(3.191 * math.sqrt(10 / 3), rel=1e-3)  # 3.182 at 3 degrees, 4.303 at 2
    assert found.p == pytest.approx(0.199, abs=2e-3)


def test_one_task_leaves_the_t_interval_over_seeds() -> None:
    found = table_estimate(np.array([[1.0], [2.0], [3.0]]))
    assert found.high - 2 == pytest.approx(4.302653 / math.sqrt(3))
    assert mean_interval([1.0, 2.0, 3.0]) == Interval(2.0, pytest.approx(found.low), pytest.approx(found.high))


def test_values_without_spread_have_no_width_and_rounding_is_no_difference() -> None:
    assert mean_interval([3.0] * 5) == Interval(3.0, 3.0, 3.0)
    assert table_estimate(np.full((3, 4), 5.0)).p == 0.0
    assert table_estimate(np.full((3, 4), 1e-14)).p == 1.0


def test_the_bounds_of_a_share_lie_where_shares_do() -> None:
    few = [0.0, 0.0, 30.0]
    assert mean_interval(few).low < 0
    assert within_percent(mean_interval(few), few).low == 0.0
    many = [100.0, 100.0, 70.0]
    assert within_percent(mean_interval(many), many).high == 100.0
    penalties = [-10.0, 0.0, 10.0]
    assert within_percent(mean_interval(penalties), penalties).low == mean_interval(penalties).low
    assert math.isnan(within_percent(mean_interval([2.0]), [2.0]).low)


def test_a_single_value_and_none_at_all_have_no_interval() -> None:
    assert mean_interval([2.0]).mean == 2.0
    assert math.isnan(mean_interval([2.0]).low)
    assert math.isnan(mean_interval([]).mean)


def test_holm_by_hand() -> None:
    """Of 0.01, 0.02, 0.03, 0.04: 4 x 0.01, 3 x 0.02, 2 x 0.03, and 1 x 0.04 is raised to the one before."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_holm_counts_tests_only() -> None:
    first, none, second = holm([0.02, math.nan, 0.04])
    assert (first, second) == (pytest.approx(0.04), pytest.approx(0.04))
    assert math.isnan(none)
