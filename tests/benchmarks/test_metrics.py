"""Metrics on hand-made episodes."""

from __future__ import annotations

import math

import pytest

from llm_dec_pomdp.benchmarks.metrics import bootstrap, distinct, summarise
from llm_dec_pomdp.types import Completion, Episode, Group, Score, Turn


def episode(
    total: float, texts: tuple[str, str] = ("a b c", "d e f"), seconds: tuple[float, float] = (1.0, 2.0)
) -> Episode:
    actions = {
        f"agent_{i}": Completion(text, prompt_ids=(1, 2, 3), token_ids=(4, 5), seconds=s)
        for i, (text, s) in enumerate(zip(texts, seconds, strict=True))
    }
    return Episode("task", 0, (Turn({}, actions, total, Score(total, {"part": total / 2})),), terminated=True)


def group(*totals: float) -> Group:
    return Group("task", tuple(episode(total) for total in totals))


def test_bootstrap_of_equal_values_has_no_width() -> None:
    interval = bootstrap([3.0] * 5)
    assert (interval.mean, interval.low, interval.high) == (3.0, 3.0, 3.0)


def test_bootstrap_interval_has_the_width_of_the_standard_error() -> None:
    values = [float(i % 2) for i in range(400)]
    interval = bootstrap(values)
    half = (interval.high - interval.low) / 2
    assert half == pytest.approx(1.96 * 0.5 / math.sqrt(400), rel=0.1)


def test_bootstrap_of_nothing_is_not_a_number() -> None:
    assert math.isnan(bootstrap([]).mean)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a b c d", 1.0), ("a b a b", 2 / 3), ("word word word", 0.5), ("So, so! SO", 0.5)],
)
def test_distinct_2_by_hand(text: str, expected: float) -> None:
    assert distinct(text) == pytest.approx(expected)


def test_distinct_2_of_one_word_is_not_a_number() -> None:
    assert math.isnan(distinct("word"))


def test_return_is_in_percent_of_the_maximum() -> None:
    summary = summarise([group(1.0, 2.0), group(3.0, 3.0)], maximum=4.0, components=["part"], seconds=1.0)
    assert summary.return_percent.mean == pytest.approx(100 * (1.5 + 3.0) / 2 / 4)
    assert summary.components == {"part": pytest.approx(9 / 4 / 2)}


def test_unscorable_episodes_are_left_out_and_counted() -> None:
    summary = summarise([group(1.0, math.nan)], maximum=2.0, components=["part"], seconds=1.0)
    assert summary.return_percent.mean == 50.0
    assert (summary.episodes, summary.unscored) == (2, 1)


def test_tokens_and_times_are_counted_for_all_agents() -> None:
    summary = summarise([group(1.0)], maximum=1.0, components=["part"], seconds=0.5)
    assert (summary.prompt_tokens, summary.generated_tokens) == (6, 4)
    assert summary.tokens_per_second == 8
    assert summary.response_seconds == 2.0


def test_the_last_scored_turn_counts() -> None:
    first, second = episode(3.0).turns[0], episode(1.0).turns[0]
    revised = Episode("task", 0, (first, second), terminated=False)
    summary = summarise([Group("task", (revised,))], maximum=4.0, components=["part"], seconds=1.0)
    assert summary.return_percent.mean == 25.0
