from __future__ import annotations

import pytest

from llm_dec_pomdp.algorithms.schedules import Schedule, factor


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        ("constant", [1.0] * 6),
        ("linear", [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]),
        ("cosine", [1.0, 0.8535534, 0.5, 0.1464466, 0.0, 0.0]),
    ],
)
def test_schedules_on_paper(schedule: Schedule, wanted: list[float]) -> None:
    assert [factor(u, schedule, 0, 4) for u in range(1, 7)] == pytest.approx(wanted)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_it_rises_first(schedule: Schedule) -> None:
    assert [factor(u, schedule, 4, 10) for u in range(1, 6)] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_it_never_rises_again(schedule: Schedule) -> None:
    after = [factor(u, schedule, 3, 20) for u in range(3, 40)]
    assert after == sorted(after, reverse=True)
    assert after[-1] == 0
