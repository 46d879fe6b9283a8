"""Event files, read by TensorBoard; trackers by name."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from llm_dec_pomdp.config import ConfigError, flat
from llm_dec_pomdp.training.tracking import Trackers, check_trackers


def test_event_files_hold_every_finite_number_by_step_and_a_second_one_continues(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for step in (0, 300):
        with Trackers.open(["tensorboard"], tmp_path, "run", {}) as trackers:
            trackers.log(step, {"test/return": step / 400, "lost": math.nan, "half \ud800\x1b": 1.0})
    read = EventAccumulator(str(tmp_path))
    read.Reload()
    assert set(read.Tags()["scalars"]) == {"test/return", "half \\ud800\\x1b"}
    assert [(event.step, event.value) for event in read.Scalars("test/return")] == [(0, 0.0), (300, 0.75)]


@pytest.mark.parametrize(
    ("name", "distribution"),
    [("tensorboard", "tensorboard"), ("wandb", "wandb"), ("mlflow", "mlflow-skinny"), ("trackio", "trackio")],
)
def test_a_tracker_that_is_not_installed_says_what_to_install(
    name: str, distribution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(ConfigError, match=rf"pip install {distribution},"):
        check_trackers([name])


def test_an_unknown_tracker_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'wandbb'; did you mean wandb\?"):
        check_trackers(["wandbb"])


def test_nested_values_are_flattened() -> None:
    assert flat({"a": {"b": {"c": 1}}, "d": [2]}) == {"a.b.c": 1, "d": [2]}
