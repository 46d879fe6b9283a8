"""List of the runs on disk, with their status, progress and return."""

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
    """The fields of `cell.json` that are shown, also of other versions."""

    training: _Training


class _Summary(TypedDict):
    return_percent: MeanRecord
    measured: NotRequired[MeasuredRecord]


class _Result(TypedDict):
    """The fields of `result.json` that are shown, also of other versions."""

    summary: _Summary


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Status and progress of a run.

    Attributes:
        name: Name of the folder.
        status: running, interrupted, failed or done; damaged if a file cannot be read.
        reason: The reason for a failure or stop, or the file that cannot be read.
        age_seconds: Seconds since the last file was written.
        step: Finished updates, over all cells that have started.
        steps: All updates of these cells.
        cells, done: Number of cells (environment, method and seed) of a benchmark, and how many have a result; 0 for a
            single run.
        return_percent: Return of the evaluation, or before it of the newest update, in % of the maximum. None for a
            benchmark, because returns of different environments are not comparable.
        mean_return, regret: The same in the unit of the game, if its optimum is known.
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
        """The progress in runs of a benchmark or in updates; "" for a single run without training."""
        if self.cells:
            return f"{self.done}/{self.cells} runs"
        return f"{self.step}/{self.steps}" if self.steps else ""

    @property
    def return_text(self) -> str:
        """The return: in the unit of the game if its optimum is known, else in % of the maximum."""
        if self.mean_return is not None:
            return f"{self.mean_return:.2f}"
        return "" if self.return_percent is None else f"{self.return_percent:.1f} %"

    @property
    def regret_text(self) -> str:
        """The regret; "" if the optimum is not known."""
        return "" if self.regret is None else f"{self.regret:.2f}"

    @property
    def age_text(self) -> str:
        """The age in the largest unit that fits."""
        units = [("d", 86400), ("h", 3600), ("min", 60), ("s", 1)]
        name, size = next(((n, s) for n, s in units if self.age_seconds >= s), ("s", 1))
        return f"{self.age_seconds / size:.0f} {name}"


def list_runs(folder: Path) -> list[RunStatus]:
    """Return the status of all runs in a folder, newest first; or of the folder itself, if it is a run.

    Raises:
        ValueError: The folder does not exist.
    """
    if not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is not a folder; give a folder with runs")
    places = [folder] if is_there(folder / STATUS) else [path for path in folder.iterdir() if path.is_dir()]
    listed = [run for run in map(status_of, places) if run is not None]
    return sorted(listed, key=lambda run: run.age_seconds)


def status_of(folder: Path) -> RunStatus | None:
    """Return the status of the run in a folder, also while it is running; None if there is no run.

    If a file cannot be read, the status is "damaged", and the reason names the file.
    """
    try:
        status = read_status(folder)
        return None if status is None else _status(folder, status)
    except (FileError, OSError) as error:
        return RunStatus(folder.name, "damaged", str(error), max(0.0, time.time() - folder.stat().st_mtime))


def _status(folder: Path, status: tuple[str, str, float]) -> RunStatus:
    state, reason, changed = status
    step = steps = done = 0
    labels = find_json(folder / "order.json", list[str]) or []  # only benchmarks have it
    earned: dict[str, float | None] = {}
    for path in sorted(folder.glob("cells/*/cell.json"), key=lambda path: path.lstat().st_mtime):
        training, result = path.parent / "train.jsonl", path.parent / "result.json"
        lines = read_lines(training, StepRecord)
        changed = max([changed, *(p.lstat().st_mtime for p in (training, result) if is_there(p))])
        if is_there(training):  # training has started
            steps += read_json(path, _Cell)["training"]["steps"]
        step += len(lines)
        done += path.parent.name in labels and is_there(result)
        earned = {} if labels else _earned(path.parent, lines)
    age = max(0.0, time.time() - changed)
    return RunStatus(folder.name, state, reason, age, step, steps, len(labels), done, **earned)


def _earned(cell: Path, lines: Sequence[StepRecord]) -> dict[str, float | None]:
    """Return the return and the regret of a cell as fields of `RunStatus`."""
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
