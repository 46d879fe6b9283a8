"""What becomes of the seeds of a method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from written_runs import make_cell, write_run

from llm_dec_pomdp.evaluation.intervals import Estimate
from llm_dec_pomdp.results.lines import Curve, MethodResult, lines
from llm_dec_pomdp.results.runs import read_run


class Seed:
    """A finished cell with a curve: (step, mean, low, high), `width` training episodes per step, and its metrics."""

    def __init__(
        self, *points: tuple[float, float, float, float], width: int = 1, metrics: Sequence[dict[str, Any]] = ()
    ) -> None:
        self.points, self.width, self.metrics = points, width, metrics

    def training(self) -> list[dict[str, Any]]:
        return [{"number": number, "metrics": metrics} for number, metrics in enumerate(self.metrics, 1)]

    def curve(self) -> list[dict[str, Any]]:
        names = ("mean", "low", "high")
        return [
            {"step": x, "training_episodes": self.width * x, "return_percent": dict(zip(names, rest, strict=True))}
            for x, *rest in self.points
        ]


def line(*seeds: Any) -> MethodResult:
    return MethodResult("tldr-v0", "magrpo", "m", "magrpo", seeds, Estimate(0, 0, 0, len(seeds), 1), {})


ONE, OTHER = Seed((0, 10, 8, 12), (32, 50, 45, 54)), Seed((0, 20, 19, 21), (32, 30, 0, 99))
MORE = Seed((0, 10, 8, 12), (16, 20, 1, 30), (32, 50, 45, 54))
WIDE, NARROW = Seed((0, 10, 8, 12), (4, 50, 45, 54), width=8), Seed((0, 20, 19, 21), (4, 30, 0, 99), width=6)


@pytest.mark.parametrize(
    ("seeds", "curve"),
    [
        ((), None),
        ((Seed(), Seed()), None),
        ((ONE,), Curve([0, 32], [10, 50], [8, 45], [12, 54])),
        ((ONE, OTHER), Curve([0, 32], [15, 40], [10, 30], [20, 50])),
        ((MORE, OTHER), Curve([0, 32], [15, 40], [10, 30], [20, 50])),
        ((WIDE, NARROW), Curve([0, 28], [15, 40], [10, 30], [20, 50])),
    ],
    ids=["no seed", "not trained", "its own interval", "mean and range", "common steps", "the mean of their episodes"],
)
def test_a_curve_is_the_mean_of_the_seeds(seeds: Sequence[Seed], curve: Curve | None) -> None:
    assert line(*seeds).curve() == curve


def test_a_metric_is_the_mean_over_the_seeds_that_have_it() -> None:
    first = Seed(metrics=[{"clipped": 0.5}, {"clipped": None, "loss": 1.0}, {"clipped": 0.25}])  # None: not finite
    second = Seed(metrics=[{"clipped": 1.0}, {}])
    assert line(first, second).metric("clipped") == {1: 0.75, 3: 0.25}
    assert line(first, second).metric("length") == {}


def test_training_has_every_update_with_the_range_of_the_seeds() -> None:
    first = [{"number": 1, "return_percent": 10.0, "components": {"a": 1.0}, "metrics": {"loss": 0.5}}]
    second = [
        {"number": 1, "return_percent": 30.0, "components": {"a": None}, "metrics": {}},
        {"number": 2, "return_percent": 50.0, "components": {"a": 2.0}, "metrics": {}},
    ]
    entries = [type("Trained", (), {"training": lambda self, steps=steps: steps})() for steps in (first, second)]
    training = line(*entries).training()
    assert training["returns"] == {"return": Curve([1, 2], [20, 50], [10, 50], [30, 50])}
    assert training["parts"] == {"a": Curve([1, 2], [1, 2], [], [])}
    assert training["metrics"] == {"loss": Curve([1], [0.5], [], [])}


def test_reward_parts_have_the_intervals_of_returns_and_learners_come_first(tmp_path: Path) -> None:
    for method, trained in (("concat", 0.0), ("magrpo", 1.0)):
        cells = [(make_cell(method, seed=seed), share) for seed, share in enumerate((0.2, 0.4, 0.3))]
        write_run(tmp_path / "run", *cells, train_seconds=trained)
    found = lines(read_run(tmp_path / "run").entries)
    assert [line.name for line in found] == ["magrpo", "concat"]
    part, earned = found[0].components()["structure"], found[0].value  # the one part is the return, of at most 3.0
    assert isinstance(part, Estimate)
    assert part.over == earned.over == "3 seeds, 12 tasks"
    wanted = [3 * value / 100 for value in (earned.mean, earned.high)]
    assert [part.mean, part.high] == pytest.approx(wanted)
    assert part.low < 3 * earned.low / 100 + 1e-9  # that of a return ends at 0
