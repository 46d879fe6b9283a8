"""Intervals and verdicts: by hand, how often equal methods are called different, and how often intervals hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from llm_dec_pomdp.evaluation.intervals import (
    Interval,
    holm,
    mean_interval,
    mixed_model,
    percent_interval,
    table_estimate,
    within_percent,
)

FAMILIES, METHODS = 800, 10  # of equal methods
PAIRS = list(itertools.combinations(range(METHODS), 2))

# Standard deviations of a method in percentage points: between seeds, between tasks beside what all methods share, and
# within. `last` is how much more the seeds of the last method differ than those of the first.
SEEDS_DIFFER_MORE = {"between_seeds": 5.0, "between_tasks": 1.0, "within": 5.0}
TASKS_DIFFER_MORE = {"between_seeds": 1.0, "between_tasks": 5.0, "within": 3.0}
ALL_ALIKE = {"between_seeds": 5.0, "between_tasks": 5.0, "within": 5.0}
METHODS_DIFFER = {"between_seeds": 2.0, "between_tasks": 3.0, "within": 5.0, "last": 9.0}
HEAVY_TAILS = {"between_seeds": 5.0, "between_tasks": 3.0, "within": 5.0, "freedom": 3.0}


def equal_methods(
    seeds: int,
    tasks: int,
    between_seeds: float,
    between_tasks: float,
    within: float,
    last: float = 1.0,
    freedom: float = math.inf,
) -> NDArray[np.float64]:
    """Returns of methods that earn the same on average, of shape (families, methods, seeds, tasks)."""
    rng = np.random.default_rng([seeds, tasks])
    of_seeds = rng.standard_normal((FAMILIES, METHODS, seeds, 1))
    if math.isfinite(freedom):
        of_seeds = rng.standard_t(freedom, of_seeds.shape)
    spread = between_seeds * np.geomspace(1.0, last, METHODS)[:, None, None]
    of_tasks = rng.normal(0, between_tasks, (FAMILIES, METHODS, 1, tasks))
    return spread * of_seeds + of_tasks + rng.normal(0, within, (FAMILIES, METHODS, seeds, tasks))


@pytest.mark.every(4)
@pytest.mark.parametrize("world", [SEEDS_DIFFER_MORE, TASKS_DIFFER_MORE, ALL_ALIKE, METHODS_DIFFER, HEAVY_TAILS])
@pytest.mark.parametrize("tasks", [2, 32])
@pytest.mark.parametrize("seeds", [3, 5])
def test_any_false_verdict_in_a_family_of_equal_methods_is_seldom(
    seeds: int, tasks: int, world: dict[str, float]
) -> None:
    """At the level of 5 %, and three standard deviations of a share that is known from so many families."""
    returns = equal_methods(seeds, tasks, **world)
    most = 0.05 + 3 * math.sqrt(0.05 * 0.95 / FAMILIES)
    found = [mixed_model(returns[:, ours] - returns[:, theirs]) for ours, theirs in PAIRS]
    for mean, half, p in found:
        assert ((np.abs(mean) > half) == (p < 0.05)).all()  # the interval leaves out 0 where the p-value is small
    for pairs in (METHODS - 1, len(PAIRS)):  # all others against the first, and all of them
        p_values = np.stack([p for _, _, p in found[:pairs]], axis=1).tolist()
        assert np.mean([min(holm(family)) < 0.05 for family in p_values]) <= most, pairs


@pytest.mark.parametrize("tasks", [10, 32, 100])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.2, 0.5, 0.95])
def test_the_interval_of_a_share_of_solved_tasks_holds_it(share: float, tasks: int) -> None:
    """With ten tasks and a share of 2 % a t interval holds it in 17 % of the draws: most have no solved task."""
    draws = 500
    solved = 100.0 * (np.random.default_rng(tasks).random((draws, tasks)) < share)
    found = [percent_interval(row) for row in solved.tolist()]
    held = np.mean([i.low <= 100 * share <= i.high for i in found])
    assert held >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / draws)
    assert all(0 <= i.low <= i.mean + 1e-9 and i.mean <= i.high + 1e-9 <= 100 + 2e-9 for i in found)


def test_the_interval_of_shares_that_are_alike_is_the_t_interval() -> None:
    shares = np.random.default_rng(0).normal(60, 3, 200).tolist()
    found, simple = percent_interval(shares), mean_interval(shares)
    assert (found.mean, found.low, found.high) == pytest.approx((simple.mean, simple.low, simple.high), rel=1e-3)


def test_the_interval_of_equal_shares_is_that_of_as_many_answers_at_the_ends_and_has_no_width_between() -> None:
    """At an end of the scale Wilson's other bound is w / (1 + w) with w = t^2 / n; t is 2.262157 for ten values."""
    width = 2.262157**2 / 10
    assert percent_interval([0.0] * 10) == Interval(0.0, 0.0, pytest.approx(100 * width / (1 + width)))
    assert percent_interval([100.0 + 1e-13] * 10).low == pytest.approx(100 / (1 + width))
    assert percent_interval([37.0] * 10) == Interval(*[pytest.approx(37.0)] * 3)


@pytest.mark.parametrize("seeds", [1, 2])
def test_below_three_seeds_nothing_is_called_different(seeds: int) -> None:
    found = table_estimate(equal_methods(seeds, 30, **SEEDS_DIFFER_MORE)[0, 0])
    assert math.isnan(found.p)
    assert math.isfinite(found.low) == (seeds == 1)
    assert found.over == {1: "30 tasks, one seed", 2: "2 seeds, 30 tasks, no interval"}[seeds]


def test_the_mixed_model_by_hand() -> None:
    """Means of seeds are 1, 2, 6 (variance 7), of tasks 2, 2, 5 (variance 3): the variance of the mean is 7/3 + 3/3."""
    found = table_estimate(np.array([[0.0, 0.0, 3.0], [1.0, 1.0, 4.0], [5.0, 5.0, 8.0]]))
    assert (found.mean, found.seeds, found.tasks) == (3.0, 3, 3)
    assert found.over == "3 seeds, 3 tasks"
    freedom = (10 / 3) ** 2 / ((7 / 3) ** 2 / 2 + 1 / 2)
    assert freedom == pytest.approx(3.448, abs=1e-3)
    both, of_seeds = 2.961 * math.sqrt(10 / 3), 4.302653 * math.sqrt(7 / 3)  # t at 3.448 and at 2 degrees of freedom
    assert both < of_seeds
    assert found.high - 3 == pytest.approx(of_seeds)
    t = 3 / math.sqrt(7 / 3)
    assert found.p == pytest.approx(1 - t / math.sqrt(t**2 + 2))  # Student's t with two degrees of freedom


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
