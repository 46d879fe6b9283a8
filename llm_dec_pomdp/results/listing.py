"""Runs on disk: which there are, how far they are, and what they earn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired  # pydantic reads that of typing from Python 3.12 on

from typing_extensions import TypedDict

from ..storage.reading import FileError, find_json, is_there, read_json
from ..storage.runfolder import STATUS, read_lines, read_status
from .records import MeanRecord, MeasuredRecord, PointRecord, StepRecord


class _Training(TypedDict):
    steps: int


class _Cell(TypedDict):
    """What is shown of a `cell.json`, also of other versions."""

    training: _Training


class _Summary(TypedDict):
    return_percent: MeanRecord
    measured: NotRequired[MeasuredRecord]


class _Result(TypedDict):
    """What is shown of a `result.json`, also of other versions."""

    summary: _Summary


@dataclass(frozen=True, slots=True)
class RunStatus:
    """How far a run is.

    Attributes:
        name: Of the folder.
        status: running, interrupted, failed or done; damaged where it cannot be read.
        reason: Why it failed, stopped or cannot be read.
        age_seconds: Since something was last written.
        step: Updates done, over all cells that have begun.
        steps: Updates to do in those of them that learn.
        cells, done: Of a benchmark: its cells, and those with a result. 0 where it is a single run.
        return_percent: In % of the maximum: of the newest training step, or of the evaluation once there is one. None
            of a benchmark, whose cells earn different things.
        mean_return, regret: The same in the unit of a game whose optimum is known.
    """

    name: str
    status: str
    reason: str
    age_seconds: float
    step: int = 0
    steps: int = 0
    cells: int = 0
    done: int = 0
    return_percent: float | None = None
    mean_return: float | None = None
    regret: float | None = None

    @property
    def progress_text(self) -> str:
        """How far it is, in cells or updates; "" of a single run where nothing is trained."""
        if self.cells:
            return f"{self.done}/{self.cells} cells"
        return f"{self.step}/{self.steps}" if self.steps else ""

    @property
    def return_text(self) -> str:
        """What it earns: in the unit of a game whose optimum is known, else in % of the maximum."""
        if self.mean_return is not None:
            return f"{self.mean_return:.2f}"
        return "" if self.return_percent is None else f"{self.return_percent:.1f} %"

    @property
    def regret_text(self) -> str:
        """The regret; "" where the optimum is not known."""
        return "" if self.regret is None else f"{self.regret:.2f}"

    @property
    def age_text(self) -> str:
        """The age in the largest unit that fits."""
        units = [("d", 86400), ("h", 3600), ("min", 60), ("s", 1)]
        name, size = next(((n, s) for n, s in units if self.age_seconds >= s), ("s", 1))
        return f"{self.age_seconds / size:.0f} {name}"


def list_runs(folder: Path) -> list[RunStatus]:
    """The status of all runs in a folder, newest first; or of the folder itself when it is a run.

    Raises:
        ValueError: There is no such folder.
    """
    if not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is not a folder; give one that holds runs")
    places = [folder] if is_there(folder / STATUS) else [path for path in folder.iterdir() if path.is_dir()]
    listed = [run for run in map(status_of, places) if run is not None]
    return sorted(listed, key=lambda run: run.age_seconds)


def status_of(folder: Path) -> RunStatus | None:
    """The status of the run in a folder, also of one that is going on; None when there is no run in it.

    Of one that cannot be read the status is "damaged", and the reason names the file.
    """
    try:
        status = read_status(folder)
        return None if status is None else _status(folder, status)
    except (FileError, OSError) as error:
        return RunStatus(folder.name, "damaged", str(error), max(0.0, time.time() - folder.stat().st_mtime))


def _status(folder: Path, status: tuple[str, str, float]) -> RunStatus:
    state, reason, changed = status
    step = steps = done = 0
    labels = find_json(folder / "order.json", list[str]) or []  # of a benchmark
    earned: dict[str, float | None] = {}
    for path in sorted(folder.glob("cells/*/cell.json"), key=lambda path: path.lstat().st_mtime):
        training, result = path.parent / "train.jsonl", path.parent / "result.json"
        lines = read_lines(training, StepRecord)
        changed = max([changed, *(p.lstat().st_mtime for p in (training, result) if is_there(p))])
        if is_there(training):  # it learns
            steps += read_json(path, _Cell)["training"]["steps"]
        step += len(lines)
        done += path.parent.name in labels and is_there(result)
        earned = {} if labels else _earned(path.parent, lines)
    age = max(0.0, time.time() - changed)
    return RunStatus(folder.name, state, reason, age, step, steps, len(labels), done, **earned)


def _earned(cell: Path, lines: Sequence[StepRecord]) -> dict[str, float | None]:
    """The returns of a cell and its regret, as fields of `RunStatus`."""
    if (result := find_json(cell / "result.json", _Result)) is not None:
        summary = result["summary"]
        regret = summary.get("measured", {}).get("regret")
        in_units = {"mean_return": regret["return"]["mean"], "regret": regret["regret"]["mean"]} if regret else {}
        return {"return_percent": summary["return_percent"]["mean"], **in_units}
    if not lines:
        return {}
    percent, mean = lines[-1].get("return_percent"), lines[-1].get("mean_return")
    [before] = read_lines(cell / "curve.jsonl", PointRecord)[:1] or [None]
    regret = before and before.get("measured", {}).get("regret")
    optimum = regret and regret["optimum"]["mean"]
    if optimum is None or mean is None:
        return {"return_percent": percent}
    return {"return_percent": percent, "mean_return": mean, "regret": optimum - mean}
