"""A report as files for a paper: figures as SVG and PDF, tables as CSV and LaTeX, scores for rliable and marl-eval."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pandas import DataFrame

from ..evaluation.comparisons import common
from ..evaluation.intervals import Interval
from ..printable import escape_controls
from ..results.lines import MethodResult, by_environment
from ..results.runs import CellRecord
from ..storage.files import replace, replace_json
from .drawing import save
from .figures import figures
from .findings import Findings
from .tables import TEXT_COLUMNS, cost_table, environment_blocks, headline_table, overall_table


def write_appendix(folder: Path, found: Findings) -> list[str]:
    """Write all figures, tables and scores of a report.

    The files are `figures/NN_ENVIRONMENT_NAME.svg` and `.pdf`, `tables/NN_TITLE.csv` and `.tex` (a `tabular` for the
    package booktabs), `rliable.json` and `marl_eval.json`. Existing files with these names are replaced.

    Args:
        folder: Folder for the files; it is created.
        found: Findings of the report.

    Returns:
        The methods that are missing in `rliable.json` and `marl_eval.json`, because they did not run on all
        environments.
    """
    pictures, texts = folder / "figures", folder / "tables"
    pictures.mkdir(parents=True, exist_ok=True)
    texts.mkdir(exist_ok=True)
    for number, figure in enumerate(figures(found), 1):
        path = pictures / _file_name(number, figure.about, figure.name)
        save(figure, path.with_suffix(".svg"), path.with_suffix(".pdf"))
    for number, (title, note, table) in enumerate(tables(found), 1):
        path = texts / _file_name(number, title.partition(",")[0])
        replace(path.with_suffix(".csv"), csv_text(table).encode())
        replace(path.with_suffix(".tex"), latex(f"{title}. {note}", table).encode())
    complete, left_out = on_all_environments(found.lines)
    replace_json(folder / "rliable.json", rliable_scores(complete))
    replace_json(folder / "marl_eval.json", marl_eval_data(complete))
    return left_out


def _file_name(number: int, *words: str) -> str:
    return f"{number:02d}_{re.sub(r'[^A-Za-z0-9]+', '_', '_'.join(words)).strip('_')}"


# --- tables -----------------------------------------------------------------------------------------------------------


def tables(found: Findings) -> list[tuple[str, str, DataFrame]]:
    """Return title, note and data of all tables of the report."""
    listed = [("Return", "", headline_table(found.lines))]
    listed += [("Over all environments", "", overall_table(found.overall))] if found.overall else []
    for environment, group in by_environment(found.lines).items():
        blocks = environment_blocks(group, found.on(environment))
        listed += [(f"{environment}: {block.title}", block.note, block.table) for block in blocks]
    return [*listed, ("Latency and token cost", "", cost_table(found.lines))]


def csv_text(table: DataFrame) -> str:
    """Return a table as comma-separated values with a header."""
    return escape_controls(table.to_csv(index=False, lineterminator="\n"))


def latex(about: str, table: DataFrame) -> str:
    """Return a table as a `tabular` for the LaTeX package booktabs, below a comment with the text `about`."""
    columns = "".join("l" if name in TEXT_COLUMNS else "r" for name in table.columns)
    texts = table.map(_one_line).rename(columns=_one_line)
    written = texts.to_latex(index=False, escape=True, column_format=columns)
    written = re.sub(r"[<>|]", r"$\g<0>$", written)  # characters that LaTeX prints correctly only in math mode
    return f"% {_one_line(about)}\n{written}"


def _one_line(text: str) -> str:
    return " ".join(escape_controls(text).split())


# --- scores -----------------------------------------------------------------------------------------------------------

Complete = Mapping[str, Mapping[str, Mapping[int, CellRecord]]]  # method -> environment -> seed


def on_all_environments(lines: Sequence[MethodResult]) -> tuple[Complete, list[str]]:
    """Return the runs of the methods that ran on all environments, and the names of the other methods.

    Only seeds that a method has on every environment are included.
    """
    by_name: dict[str, dict[str, MethodResult]] = {}
    for line in lines:
        by_name.setdefault(line.name, {})[line.environment] = line
    environments, complete = list(by_environment(lines)), dict[str, dict[str, dict[int, CellRecord]]]()
    for name, group in by_name.items():
        cells = {where: {e.cell.seed: e for e in group[where].entries} for where in environments if where in group}
        seeds = common(list(cells.values()))
        if len(cells) == len(environments) and seeds:
            complete[name] = {where: {seed: by_seed[seed] for seed in seeds} for where, by_seed in cells.items()}
    return complete, [name for name in by_name if name not in complete]


def rliable_scores(complete: Complete) -> dict[str, Any]:
    """Return the score dictionary of rliable: for every method a matrix of shape (seeds, environments).

    Returns:
        `score_dict`, with shares of the maximum, and `environments`, the names of its columns.
    """
    scores = {
        name: [
            [_share(entry) for entry in run] for run in zip(*(cells.values() for cells in group.values()), strict=True)
        ]
        for name, group in complete.items()
    }
    environments = dict.fromkeys(where for group in complete.values() for where in group)
    return {"environments": list(environments), "score_dict": scores}


def marl_eval_data(complete: Complete) -> dict[str, Any]:
    """Return learning curves in the layout of marl-eval: environment, task, algorithm, run, step, metric.

    marl-eval needs the same runs and the same number of steps for every algorithm and task. So only seeds that all
    methods have are included, with as many evenly chosen evaluations as the shortest curve has. A method that does not
    learn has the same return at every step.

    Returns:
        The environment is "llm_dec_pomdp", and its tasks are the environments of this package. `step_count` counts
        training episodes, and `return` is a share of the maximum.
    """
    if not complete:
        return {}
    seeds = common([cells for group in complete.values() for cells in group.values()])
    chosen = [cells[seed] for group in complete.values() for cells in group.values() for seed in seeds]
    steps = min((len(curve) for curve in map(_curve, chosen) if curve), default=1)
    tasks: dict[str, dict[str, Any]] = {}
    for environment in next(iter(complete.values())):
        by_method = {name: [group[environment][seed] for seed in seeds] for name, group in complete.items()}
        curves = [_curve(entry) for cells in by_method.values() for entry in cells]
        episodes_of = next((_evenly(curve, steps) for curve in curves if curve), [(0, 0.0)])
        tasks[environment.lower()] = {
            name: {
                f"seed_{entry.cell.seed}": _run(entry, steps, [episodes for episodes, _ in episodes_of])
                for entry in cells
            }
            for name, cells in by_method.items()
        }
    return {"llm_dec_pomdp": tasks}


def _run(entry: CellRecord, steps: int, episodes: Sequence[int]) -> dict[str, Any]:
    """Return the evaluations of a run; without training, at the training episodes of the other runs."""
    curve = _curve(entry)
    points = _evenly(curve, steps) if curve else [(number, _share(entry)) for number in episodes]
    logged = {f"step_{k}": {"step_count": at, "return": [share]} for k, (at, share) in enumerate(points, 1)}
    return {**logged, "absolute_metrics": {"return": [_share(entry)]}}


def _curve(entry: CellRecord) -> list[tuple[int, float]]:
    """Return training episodes and share of the maximum for every evaluation; [] for a run without training."""
    points = [(p["training_episodes"], Interval.read(p["return_percent"]).mean / 100) for p in entry.curve()]
    return points if len(points) > 1 else []


def _evenly(curve: Sequence[tuple[int, float]], steps: int) -> list[tuple[int, float]]:
    """Return `steps` evenly chosen points of a curve, including the first and the last."""
    apart = (len(curve) - 1) / max(steps - 1, 1)
    return [curve[round(number * apart)] for number in range(steps)]


def _share(entry: CellRecord) -> float:
    """Return the return of a run as a share of the maximum."""
    assert entry.result is not None  # lines contain only finished runs
    return entry.result.summary.return_percent.mean / 100
