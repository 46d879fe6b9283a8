"""What readers of runs need of the lines of their logs, see `storage.runfolder`."""

from __future__ import annotations

from typing import NotRequired  # pydantic reads that of typing from Python 3.12 on

import pydantic
from typing_extensions import TypedDict

_Logged = pydantic.FiniteFloat | None  # null where it was not finite


class StepRecord(TypedDict):
    """A line of `train.jsonl`: what readers of runs need of a training step."""

    number: int
    episodes: NotRequired[int]
    mean_return: NotRequired[_Logged]
    return_percent: NotRequired[_Logged]
    components: NotRequired[dict[str, _Logged]]
    metrics: dict[str, _Logged]


class MeanRecord(TypedDict):
    """An interval as a line of a file holds it."""

    mean: float | None
    low: float | None
    high: float | None


RegretRecord = TypedDict("RegretRecord", {"return": MeanRecord, "regret": MeanRecord, "optimum": MeanRecord})


class MeasuredRecord(TypedDict):
    """What readers of runs need of the sections of a report, of which most measure nothing in most environments."""

    regret: NotRequired[RegretRecord]


class PointRecord(TypedDict):
    """A line of `curve.jsonl`: what readers of runs need of an evaluation during training."""

    step: int
    training_episodes: int
    return_percent: MeanRecord
    components: NotRequired[dict[str, MeanRecord]]
    distinct_2: NotRequired[float | None]
    truncated: NotRequired[float | None]
    measured: NotRequired[MeasuredRecord]
