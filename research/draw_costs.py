"""Draw return against its cost from a file of `collect_results.py`, an environment per row.

    python research/draw_costs.py research/data/NAME.json.xz --out docs/results/NAME.png [--costs generations]

Lines are means and bands are ranges of the seeds, at the evaluations during training.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import raw_data
from compare_results import COSTS, methods
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def draw(axes: Axes, cost: str, colour: str, label: str, seeds: Sequence[dict[str, Any]]) -> None:
    """Draw the mean and range of the seeds of one method."""
    columns = list(zip(*(cell["curve"] for cell in seeds), strict=True))
    x = [fmean(point[cost] for point in column) for column in columns]
    values = [[point["return_percent"]["mean"] for point in column] for column in columns]
    axes.plot(x, [fmean(column) for column in values], linewidth=2, label=label, color=colour)
    low, high = [min(column) for column in values], [max(column) for column in values]
    axes.fill_between(x, low, high, alpha=0.15, color=colour)


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--costs", nargs="+", choices=COSTS, default=COSTS, help="costs to draw, a column each")
    arguments = parser.parse_args()
    environments = methods(raw_data.read(arguments.results))
    labels = dict.fromkeys(label for by_method in environments.values() for label in by_method)
    colours = {label: f"C{number}" for number, label in enumerate(labels)}
    points = [
        p for by_method in environments.values() for s in by_method.values() for c in s.values() for p in c["curve"]
    ]
    costs = [cost for cost in arguments.costs if all(cost in point for point in points)]
    figure = Figure(figsize=(5 * len(costs), 3.5 * len(environments)), layout="constrained")
    grid = figure.subplots(len(environments), len(costs), sharey="row", squeeze=False)
    for row, (environment, by_method) in zip(grid, environments.items(), strict=True):
        for axes, cost in zip(row, costs, strict=True):
            for label, seeds in by_method.items():
                draw(axes, cost, colours[label], label, list(seeds.values()))
            axes.set(xlabel=cost.replace("_", " "), title=environment, ylim=(0, 100))
        row[0].set_ylabel("return, % of maximum")
    fullest = max(range(len(grid)), key=lambda number: len(list(environments.values())[number]))
    figure.legend(*grid[fullest][0].get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(labels)))
    figure.savefig(arguments.out, dpi=110, metadata={"Date": None} if arguments.out.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
