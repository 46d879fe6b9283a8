# pyright: basic
"""Results for people: a table for the terminal, Markdown and learning curves for the run folder."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from .cell import Result, read_lines

_LINES = (":", "--", "-.", (0, (1, 4)), (0, (6, 3, 1, 3)))
MEASURES = ("return %", "95 % interval", "distinct-2", "tokens/s", "response s")


def rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Column names and one row of text per result of an environment: who, the measures, the reward parts."""
    varying = _varying(results)
    found: list[list[str]] = []
    for result in results:
        s = result.summary
        r = s.return_percent
        identity = {"model": _short(result.cell.model.name), "seed": str(result.cell.seed)}
        found.append(
            [
                result.cell.method.title,
                *(identity[name] for name in varying),
                f"{r.mean:.1f}",
                f"{r.low:.1f}-{r.high:.1f}",
                f"{s.distinct_2:.3f}",
                f"{s.tokens_per_second:.0f}",
                f"{s.response_seconds:.2f}",
                *(f"{value:.2f}" for value in s.components.values()),
            ]
        )
    return ["method", *varying, *MEASURES, *results[0].summary.components], found


def _varying(results: Sequence[Result]) -> list[str]:
    models, seeds = {r.cell.model.name for r in results}, {r.cell.seed for r in results}
    return [name for name, values in (("model", models), ("seed", seeds)) if len(values) > 1]


def _short(name: str) -> str:
    return Path(name).name if name.endswith(".gguf") else name


def by_environment(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results grouped by environment id, in order."""
    grouped: dict[str, list[Result]] = {}
    for result in results:
        grouped.setdefault(result.cell.environment.id, []).append(result)
    return grouped


def tables(results: Sequence[Result]) -> list[Table]:
    """Two rich tables per environment, narrow enough for a terminal: the measures, and the reward parts."""
    made: list[Table] = []
    for environment, group in by_environment(results).items():
        names, found = rows(group)
        who = 1 + len(_varying(group))
        parts = who + len(MEASURES)
        made.append(_table(_title(environment, group), names[:parts], [row[:parts] for row in found], who))
        chosen = [*range(who), *range(parts, len(names))]
        picked = [[row[i] for i in chosen] for row in found]
        made.append(_table(f"{environment}: mean reward parts", [names[i] for i in chosen], picked, who))
    return made


def _table(title: str, names: Sequence[str], body: Sequence[Sequence[str]], left: int) -> Table:
    table = Table(title=title, title_justify="left")
    for position, name in enumerate(names):
        table.add_column(name, justify="left" if position < left else "right")
    for row in body:
        table.add_row(*row)
    return table


def _title(environment: str, group: Sequence[Result]) -> str:
    summary = group[0].summary
    unscored = sum(result.summary.unscored for result in group)
    lost = f", {unscored} episodes could not be scored and are left out" if unscored else ""
    models = ", ".join(dict.fromkeys(_short(result.cell.model.name) for result in group))
    rows_name = f"{summary.episodes} episodes per method on the {group[0].cell.evaluation.split} rows"
    return f"{environment}, {models}: {rows_name}{lost}"


def write_report(folder: Path, name: str, results: Sequence[Result]) -> None:
    """Write `report.md`, and `curves.png` when something was trained."""
    lines = [f"# {name}", ""]
    for environment, group in by_environment(results).items():
        names, found = rows(group)
        lines += [f"## {_title(environment, group)}", "", _markdown(names), _markdown(["---"] * len(names))]
        lines += [*map(_markdown, found), ""]
    if draw_curves(folder, results):
        lines += ["## Test return while training", "", "![learning curves](curves.png)", ""]
    lines += ["## One episode per method", ""]
    for result in results:
        lines += _sample(folder, result)
    (folder / "report.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _sample(folder: Path, result: Result) -> list[str]:
    """The texts of the first episode of a cell."""
    episodes = read_lines(folder / "cells" / result.cell.label / "episodes.jsonl")
    if not episodes:
        return []
    last: dict[str, Any] = episodes[0]["turns"][-1]
    lines = [f"### {result.cell.label}: {episodes[0]['task']}, return {episodes[0]['return']:.2f}", ""]
    for agent, text in last["actions"].items():
        lines += [f"{agent}:", "", "~~~text", text.replace("~~~", "~ ~ ~"), "~~~", ""]
    return lines


def draw_curves(folder: Path, results: Sequence[Result]) -> bool:
    """Draw the test return over training, a panel per environment; False when nothing was trained."""
    trained = [r for r in results if read_lines(folder / "cells" / r.cell.label / "curve.jsonl")]
    if not trained:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = by_environment(trained)
    figure = Figure(figsize=(5.5 * len(panels), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    for position, (environment, group) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(1, len(panels), position)
        styles = itertools.cycle(_LINES)
        for result in group:
            points = read_lines(folder / "cells" / result.cell.label / "curve.jsonl")
            x = [p["training_episodes"] for p in points]
            returns = [p["return_percent"] for p in points]
            (line,) = axes.plot(x, [r["mean"] for r in returns], marker="o", label=_curve_label(result))
            axes.fill_between(
                x, [r["low"] for r in returns], [r["high"] for r in returns], alpha=0.2, color=line.get_color()
            )
        for other in by_environment(results)[environment]:
            if other not in group:
                style: Any = next(styles)
                axes.axhline(
                    other.summary.return_percent.mean,
                    linestyle=style,
                    linewidth=1,
                    color="0.4",
                    label=_curve_label(other),
                )
        axes.set(title=environment, xlabel="training episodes", ylabel="test return, % of maximum", ylim=(0, 100))
        axes.legend(fontsize=7)
    figure.savefig(folder / "curves.png", dpi=130)
    return True


def _curve_label(result: Result) -> str:
    return f"{result.cell.method.title}, seed {result.cell.seed}"
