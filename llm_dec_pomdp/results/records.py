"""Types of the lines in the logs of a run, see `storage.runfolder`. They have only the fields that are read."""

from __future__ import annotations

from typing import NotRequired  # pydantic reads that of typing from Python 3.12 on

import pydantic
from typing_extensions import TypedDict

_Logged = pydantic.FiniteFloat | None  # null if the number was not finite


class StepRecord(TypedDict):
    """A line of `train.jsonl`, which belongs to one update."""

    number: int
    episodes: NotRequired[int]
    mean_return: NotRequired[_Logged]
    return_percent: NotRequired[_Logged]
    components: NotRequired[dict[str, _Logged]]
    metrics: dict[str, _Logged]


class RollbackRecord(TypedDict):
    """An entry of `rollbacks.json`: a return to a checkpoint after divergence, see `training.loop.Rollback`."""

    at: int
    to: int
    reason: str
    learning_rates: dict[str, float]


class MeanRecord(TypedDict):
    """An interval as JSON."""

    mean: float | None
    low: float | None
    high: float | None


RegretRecord = TypedDict("RegretRecord", {"return": MeanRecord, "regret": MeanRecord, "optimum": MeanRecord})


class MeasuredRecord(TypedDict):
    """Numbers of the sections of a report; most environments have only some of them."""

    regret: NotRequired[RegretRecord]


class PointRecord(TypedDict):
    """A line of `curve.jsonl`, which belongs to one evaluation during training."""

    step: int
    training_episodes: int
    return_percent: MeanRecord
    components: NotRequired[dict[str, MeanRecord]]
    distinct_2: NotRequired[float | None]
    truncated: NotRequired[float | None]
    measured: NotRequired[MeasuredRecord]
