"""Parts of the commands `crossplay` and `robustness`."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..options import EvaluationConfig
from .options import Json, Traces, configured, from_options, given
from .trust import Trust, allow, typed

if TYPE_CHECKING:
    from ..benchmarks.partners import SavedTeam
    from ..benchmarks.result import Result
    from ..benchmarks.suite import Cell
    from ..progress import Progress

KeyT = TypeVar("KeyT", bound=Hashable)
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Folder of the results. If it has results of this command, finished ones are kept. Default: a "
        "new folder in runs/.",
    ),
]
OPTIONS: dict[str, tuple[Any, Any]] = {
    "split": (
        Annotated[str, typer.Option(help="Tasks of this split: train, test or all. Default: as in the run.")],
        "",
    ),
    **configured(EvaluationConfig, "items", "samples"),
    "seed": (Annotated[int, typer.Option(help="Seed of the evaluations.")], 0),
    "out_folder": (Out, None),
    "traces": (Traces, False),
    "trust": (Trust, False),
    "as_json": (Json, False),
}


def base_cell(context: typer.Context, team: SavedTeam, options: Mapping[str, Any], env_id: str | None = None) -> Cell:
    """Return the cell whose environment, tasks, sampling and seed all evaluations share.

    Args:
        context: Context of the command, which records the given options.
        team: The team whose run has the defaults.
        options: Values of `OPTIONS`.
        env_id: Another environment, with its default options.
    """
    from ..benchmarks.suite import EnvironmentConfig

    cell = team.cell
    environment = cell.environment
    if env_id is not None:
        typed(env_id)
        environment = from_options(EnvironmentConfig, id=env_id)
    if given(context, "split"):
        environment = environment.model_copy(update={"eval_tasks": None})
    changed = {name: options[name] for name in ("split", "items", "samples") if given(context, name)}
    evaluation = from_options(EvaluationConfig, **{**cell.evaluation.model_dump(), **changed})
    environment = environment.model_copy(update={"protocol": cell.protocol})
    return dataclasses.replace(cell, environment=environment, evaluation=evaluation, seed=options["seed"])


def find_teams(runs: Sequence[Path], by_hand: Sequence[str] = (), *, trust: bool) -> list[SavedTeam]:
    """Return the teams of runs, after checking the code and servers that they name; see `trust.allow`."""
    from ..benchmarks.partners import read_teams, team_folders
    from ..benchmarks.suite import cell_of

    folders = team_folders(runs)
    for folder in folders:
        allow([cell_of(folder)], folder, by_hand, trust=trust)
    return read_teams(folders)


def evaluate_all(cells: Mapping[KeyT, Cell], folder: Path, progress: Progress, *, traces: bool) -> dict[KeyT, Result]:
    """Return the results of all cells; evaluate the cells that have no result in the folder yet."""
    from ..benchmarks.cell import run_cell

    return {
        key: run_cell(cell, folder / "cells" / cell.label, progress, learn=False, traces=traces)
        for key, cell in cells.items()
    }
