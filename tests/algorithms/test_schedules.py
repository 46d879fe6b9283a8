from __future__ import annotations

import pytest

from llm_dec_pomdp.algorithms.schedules import Schedule, factor


def test_a_constant_schedule_is_one_from_the_start() -> None:
    assert [factor(u, "constant", 0, 0) for u in (1, 2, 1000)] == [1.0, 1.0, 1.0]


def test_linear_on_paper() -> None:
    assert [factor(u, "linear", 0, 4) for u in range(1, 7)] == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0, 0.0])


def test_cosine_on_paper() -> None:
    assert [factor(u, "cosine", 0, 4) for u in range(1, 6)] == pytest.approx([1.0, 0.8535534, 0.5, 0.1464466, 0.0])


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_it_rises_first(schedule: Schedule) -> None:
    assert [factor(u, schedule, 4, 10) for u in range(1, 6)] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_it_never_rises_again(schedule: Schedule) -> None:
    after = [factor(u, schedule, 3, 20) for u in range(3, 40)]
    assert after == sorted(after, reverse=True)
    assert after[-1] == 0
