"""Statistics over seeds and tasks, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from llm_dec_pomdp.evaluation.comparisons import (
    difference,
    improvement_probability,
    interquartile_interval,
    interquartile_mean,
    overall,
    performance_profile,
)
from llm_dec_pomdp.evaluation.intervals import Interval, percent_interval

RNG = np.random.default_rng(0)


def test_interquartile_mean_drops_a_quarter_at_both_ends() -> None:
    scores = np.array([[0.0, 100.0], [40.0, 50.0], [60.0, 70.0], [-99.0, 999.0]])
    assert interquartile_mean(scores) == pytest.approx((40 + 50 + 60 + 70) / 4)
    assert interquartile_mean(np.array([[3.0]])) == 3.0


def test_improvement_probability_counts_pairs_and_halves_ties() -> None:
    ours, theirs = np.array([[3.0, 1.0], [1.0, 1.0]]), np.array([[2.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
    by_hand = [((1 + 1 + 1) + (0 + 1 + 0.5)) / 6, ((0.5 + 0 + 1) + (0.5 + 0 + 1)) / 6]
    assert improvement_probability(ours, theirs) == pytest.approx(np.mean(by_hand))
    assert improvement_probability(ours, theirs) + improvement_probability(theirs, ours) == pytest.approx(1.0)


OURS = np.array(
    [
        [52.5, 47.4, 62.8, 52.1],
        [39.3, 57.2, 76.1, 68.9],
        [35.9, 24.7, 37.5, 50.8],
        [3.5, 45.6, 25.1, 35.4],
        [39.1, 43.7, 58.2, 70.9],
    ]
)
THEIRS = np.array(
    [
        [52.4, 82.3, 41.7, 62.0],
        [73.1, 56.9, 40.1, 36.6],
        [45.8, 59.4, 34.8, 50.8],
        [51.8, 65.8, 59.3, 62.1],
        [41.9, 52.4, 70.7, 84.9],
        [29.8, 85.3, 81.9, 70.6],
    ]
)


def test_the_three_measures_are_those_of_rliable() -> None:
    """Values that rliable 1.2 gives: aggregate_iqm, probability_of_improvement, create_performance_profile."""
    assert interquartile_mean(OURS) == pytest.approx(46.52)
    assert improvement_probability(OURS, THEIRS) == pytest.approx(0.29583333333333334)
    profile = performance_profile(OURS, np.array([0.0, 20.0, 40.0, 60.0, 80.0, 100.0]))[0]
    assert profile.tolist() == pytest.approx([1.0, 0.95, 0.6, 0.2, 0.0, 0.0])


@pytest.mark.every(2)
@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_over_environments_hold_what_they_are_of(seeds: int) -> None:
    """Percentiles of the bootstrap hold the interquartile mean in 80 % of such draws with three seeds."""
    draws, middle = 200, np.array([15.0, 40.0, 60.0, 85.0])
    found = RNG.normal(middle, 10, size=(draws, seeds, 4))
    intervals = [interquartile_interval(scores, resamples=100) for scores in found]
    least = 0.95 - 3 * np.sqrt(0.05 * 0.95 / draws)
    assert np.mean([i.low <= 50 <= i.high for i in intervals]) >= least  # by symmetry
    shares = np.array([performance_profile(scores, np.array([50.0])) for scores in found])[:, :, 0]
    assert np.mean((shares[:, 1] <= 0.5) & (shares[:, 2] >= 0.5)) >= least
    assert (shares[:, 1] < shares[:, 2]).all()


def test_intervals_over_environments_need_three_seeds() -> None:
    scores = RNG.normal(50, 10, size=(3, 2))
    assert np.isfinite(interquartile_interval(scores).low)
    assert np.isfinite(performance_profile(scores, np.array([50.0]))).all()
    assert np.isnan(interquartile_interval(scores[:2]).low)
    assert np.isnan(performance_profile(scores[:2], np.array([50.0]))[1:]).all()
    flat = np.repeat(np.array([[10.0, 90.0]]), 5, axis=0)
    assert interquartile_interval(flat) == Interval(50.0, 50.0, 50.0)


def returns(seeds: int, tasks: int, shift: float = 0.0) -> dict[int, dict[str, float]]:
    rng = np.random.default_rng(1)
    hard = rng.normal(50, 20, size=tasks)
    return {s: {f"t{t}": hard[t] + shift + rng.normal(0, 3) for t in range(tasks)} for s in range(seeds)}


def test_a_paired_difference_is_seen_through_hard_and_easy_tasks() -> None:
    found = difference(returns(3, 20, shift=5.0), returns(3, 20))
    assert found is not None
    assert (found.mean, found.p) == (pytest.approx(5.0), pytest.approx(0.0))
    assert (found.seeds, found.tasks) == (3, 20)


def test_a_lucky_seed_is_no_difference() -> None:
    ours, theirs = returns(3, 20), returns(3, 20)
    ours[0] = {task: value + 9 for task, value in ours[0].items()}
    ours[1] = {task: value - 5 for task, value in ours[1].items()}
    found = difference(ours, theirs)
    assert found is not None
    assert found.low < 0 < found.high
    assert found.p > 0.5


def test_only_seeds_and_tasks_of_both_are_paired() -> None:
    theirs = returns(5, 20)
    del theirs[0]
    found = difference(returns(4, 30, shift=5.0), theirs)
    assert found is not None
    assert (found.seeds, found.tasks) == (3, 20)


def test_without_a_common_seed_there_is_no_interval_and_without_a_common_task_nothing() -> None:
    theirs = {seed + 7: by_task for seed, by_task in returns(3, 20).items()}
    found = difference(returns(3, 20, shift=5.0), theirs)
    assert found is not None
    assert (found.mean, found.over) == (pytest.approx(5.0), "no common seed, no interval")
    assert np.isnan([found.low, found.p]).all()
    assert difference({0: {"a": 1.0}}, {0: {"b": 1.0}}) is None


def test_the_return_of_one_seed_has_the_interval_of_a_share() -> None:
    alone = overall({0: {f"t{task}": 0.0 for task in range(8)}})
    assert alone is not None
    assert (alone.low, alone.high) == (0.0, percent_interval([0.0] * 8).high)
    assert alone.high > 30
