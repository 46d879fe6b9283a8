"""The result of a run, as a value and as the file `result.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..envs.registration import registry as environments
from ..evaluation.metrics import Summary
from ..storage.reading import FileError, conform, find_json
from ..types import Scale
from .suite import Cell, conflicts

ROLLBACKS = "rollbacks.json"  # file of a cell: returns to checkpoints after divergence


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run.

    Attributes:
        cell: Configuration of the run.
        summary: Measurements of the evaluation.
        train_seconds: Seconds of training; 0 for methods that do not learn.
        eval_seconds: Seconds of playing and scoring the evaluation tasks.
        maximum, zero: The scores that count as 100 % and 0 %.
        tasks: Digest of the evaluation tasks; "" if unknown. Results on different tasks are not comparable.
        roles: Role of each agent; {} in results of earlier versions.
        judge: The LLM judge in the reward, with a hash of its weights; "" without one. Results of different judges are
            not comparable.
    """

    cell: Cell
    summary: Summary
    train_seconds: float
    eval_seconds: float
    maximum: float
    tasks: str = ""
    zero: float = 0.0
    roles: Mapping[str, str] = field(default_factory=dict[str, str])
    judge: str = ""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str = "result") -> Result:
        """Return the result of `to_dict`. Only registered environments are loaded, no other code that it names.

        Raises:
            FileError, ConfigError: The values of `source` are not a result.
        """
        known = {name: value for name, value in values.items() if name in cls.__dataclass_fields__}
        cell = Cell.from_dict(conform(values.get("cell"), dict[str, Any], f"{source}, field cell"), source)
        known |= {"cell": cell, "summary": Summary.from_dict(values.get("summary"), f"{source}, field summary")}
        if not values.get("maximum"):
            known["maximum"] = environments.find(cell.environment.id).load().declared.score_range[1]  # type: ignore[attr-defined]
        result = conform(known, cls, source)
        if not (result.maximum > result.zero and math.isfinite(result.maximum - result.zero)):
            raise FileError(
                f"{source}: the scale from {result.zero} to {result.maximum} is invalid; correct or remove the file"
            )
        return result

    @property
    def scale(self) -> Scale:
        """The scores that count as 0 % and 100 %."""
        return Scale(self.zero, self.maximum)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file."""
        return {**asdict(self), "cell": self.cell.to_dict()}


def find_result(folder: Path) -> Result | None:
    """Return the result in the folder of a cell; None if there is none.

    Raises:
        FileError, ConfigError: The file is not a result.
    """
    path = folder / "result.json"
    values = find_json(path, dict[str, Any])
    return None if values is None else Result.from_dict(values, str(path))


def is_done(folder: Path, cell: Cell) -> bool:
    """Return whether a folder has a result of this cell; the frequency of evaluations and checkpoints may differ."""
    try:
        result = find_result(folder)
    except (KeyError, ValueError):
        return False
    if result is None:
        return False
    return result.cell.training.steps == cell.training.steps and not conflicts(result.cell, cell)


def failure_in(folder: Path) -> str:
    """Return the reason why a cell has no result."""
    return (find_json(folder / "failure.json", dict[str, str]) or {}).get("reason", "not finished")


def cells_in(run: Path) -> list[Path]:
    """Return the folders of the cells of a benchmark, in the order of its suite, followed by further ones."""
    labels = find_json(run / "order.json", list[str]) or []
    order = {label: number for number, label in enumerate(labels)}
    folders = [path.parent for path in (run / "cells").glob("*/cell.json")]
    return sorted(folders, key=lambda folder: (order.get(folder.name, len(order)), folder.name))
