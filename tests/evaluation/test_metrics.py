"""Metrics on hand-made episodes."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import fmean

import pytest

from llm_dec_pomdp.evaluation.intervals import Interval
from llm_dec_pomdp.evaluation.metrics import Summary, distinct, final_scores, summarise
from llm_dec_pomdp.evaluation.sections.best_of_k import best_at_k, best_of_k, pass_at_k
from llm_dec_pomdp.types import Completion, Episode, Group, Scale, Score, Turn, Usage


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a b c d", 1.0), ("a b a b", 2 / 3), ("word word word", 0.5), ("So, so! SO", 0.5)],
)
def test_distinct_2_by_hand(text: str, expected: float) -> None:
    assert distinct(text) == pytest.approx(expected)


def test_distinct_2_of_one_word_is_not_a_number() -> None:
    assert math.isnan(distinct("word"))


def test_return_is_in_percent_of_the_maximum() -> None:
    summary = summarise([group(1.0, 2.0), group(3.0, 3.0)], scale=Scale(0.0, 4.0), components=["part"], seconds=1.0)
    assert summary.return_percent.mean == pytest.approx(100 * (1.5 + 3.0) / 2 / 4)
    assert summary.components["part"].mean == pytest.approx((1.5 + 3.0) / 2 / 2)


def test_the_interval_of_a_single_task_is_over_its_episodes_and_none_is_shown_for_one_episode() -> None:
    many = summarise([group(*[1.0, 0.0] * 50)], scale=Scale(0.0, 1.0), components=["part"], seconds=1.0)
    assert 39 < many.return_percent.low < 41
    assert 59 < many.return_percent.high < 61
    assert many.components["part"].low == pytest.approx(0.2, abs=0.01)
    assert f"50.0 % [{many.return_percent.low:.1f}" in repr(many)
    alone = summarise([group(1.0)], scale=Scale(0.0, 2.0), components=["part"], seconds=1.0)
    assert repr(alone).startswith("Summary(return 50.0 %, part")
    tasks = summarise([group(1.0, 0.0), group(1.0, 0.0)], scale=Scale(0.0, 1.0), components=["part"], seconds=1.0)
    assert tasks.components["part"].low == tasks.components["part"].high  # over tasks, which are equal


def test_unscorable_episodes_are_left_out_and_counted() -> None:
    summary = summarise([group(1.0, math.nan)], scale=Scale(0.0, 2.0), components=["part"], seconds=1.0)
    assert summary.return_percent.mean == 50.0
    assert (summary.episodes, summary.unscored) == (2, 1)


def test_tokens_and_times_are_counted_for_all_agents() -> None:
    summary = summarise([group(1.0)], scale=Scale(0.0, 1.0), components=["part"], seconds=0.5)
    assert (summary.prompt_tokens, summary.generated_tokens) == (6, 4)
    assert summary.tokens_per_second == 8
    assert summary.response_seconds == 2.0


# --- the best of k samples --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("values", [[0.0, 1.0, 1.0, 0.0, 0.0], [0.3, 0.1, 0.9, 0.9, 0.5, 0.0]])
def test_best_of_k_is_the_mean_over_all_subsets(values: list[float], k: int) -> None:
    every = [max(subset) for subset in itertools.combinations(values, k)]
    assert best_at_k(values, k) == pytest.approx(fmean(every))


@pytest.mark.parametrize(("n", "c"), [(15, 0), (15, 1), (15, 7), (15, 15), (6, 5)])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_pass_at_k_is_the_best_of_k_of_zeros_and_ones(n: int, c: int, k: int) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(best_at_k([1.0] * c + [0.0] * (n - c), k))


def programs(*tests: tuple[float, float], cooperation: Sequence[float] = ()) -> Group:
    """A task whose samples passed `tests` asserts (of a total), each with a cooperation score."""
    found: list[Episode] = []
    for number, (passed, total) in enumerate(tests):
        parts = {"tests": passed / total if total else 0.0, "cooperation": cooperation[number] if cooperation else 0.0}
        score = Score(sum(parts.values()), parts, {"tests_passed": passed, "tests_total": total} if total else {})
        found.append(Episode("task", number, (Turn({}, {}, score.total, score),), terminated=False))
    return Group("task", tuple(found))


def test_code_is_measured_at_every_k_that_there_are_samples_for() -> None:
    group = programs((1, 2), (2, 2), (0, 0), cooperation=(0.5, 1.5, 0.0))
    measured = best_of_k(final_scores([group]))
    assert set(measured) == {f"{name}@{k}" for name in ("pass", "acc", "coop") for k in (1, 3)}
    assert measured["pass@1"].mean == pytest.approx(100 / 3)
    assert measured["acc@1"].mean == pytest.approx(50)
    assert measured["coop@1"].mean == pytest.approx(100 * (0.5 + 1.5) / 1.5 / 3)
    assert {measured[f"{name}@3"].mean for name in ("pass", "acc", "coop")} == {100}
    assert summarise([group], Scale(0.0, 4.0), ["tests", "cooperation"], 1.0).solved == pytest.approx(1 / 3)


def counted_by_a_server(usage: Usage) -> Group:
    actions = {"agent_0": Completion("a b", usage=usage), "agent_1": Completion("a script")}
    return Group("task", (Episode("task", 0, (Turn({}, actions, 1.0, Score(1.0, {})),), True),))


def test_tokens_that_a_server_reports_are_counted() -> None:
    summary = summarise([counted_by_a_server(Usage(7, 5, 2))], Scale(0.0, 1.0), [], seconds=2.0)
    assert (summary.prompt_tokens, summary.generated_tokens) == (7, 5)
    assert (summary.tokens_per_second, summary.tokens_per_solved) == (2.5, 12)


def test_tokens_that_a_server_does_not_report_are_not_a_number() -> None:
    groups = [counted_by_a_server(Usage(7, 5)), counted_by_a_server(Usage(7))]
    summary = summarise(groups, Scale(0.0, 1.0), [], seconds=2.0)
    assert summary.prompt_tokens == 7
    unknown = (summary.generated_tokens, summary.tokens_per_second, summary.tokens_per_solved)
    assert all(map(math.isnan, unknown))


def test_tokens_per_solved_task_counts_the_tokens_of_the_failed_ones() -> None:
    summary = summarise([group(1.0, 0.2)], scale=Scale(0.0, 1.0), components=["part"], seconds=1.0)
    assert summary.solved == 0.5
    assert summary.tokens_per_solved == 2 * (6 + 4)
    assert math.isnan(summarise([group(0.2)], Scale(0.0, 1.0), ["part"], 1.0).tokens_per_solved)


def test_a_summary_survives_a_file_and_reads_older_ones() -> None:
    group = programs((1, 2), (2, 2))
    summary = summarise([group], Scale(0.0, 4.0), ["tests", "cooperation"], 1.0)
    summary = replace(summary, measured={"at_k": best_of_k(final_scores([group]))})
    assert str(Summary.from_dict(json.loads(json.dumps(asdict(summary))))) == str(summary)
    old = {**asdict(summary), "components": {"tests": 0.5}}
    old |= {"at_k": {"pass": {"1": 50.0}}, "schemes": {"fallback": 0.25}}  # where earlier versions kept them
    del old["measured"], old["latency"]
    read = Summary.from_dict(old)
    assert read.components["tests"].mean == 0.5
    assert math.isnan(read.components["tests"].low)
    assert read.return_percent == Interval(**asdict(summary)["return_percent"])
    assert read.measured["at_k"]["pass@1"].mean == 50.0
    assert read.measured["schemes"]["fallback"].mean == 0.25
