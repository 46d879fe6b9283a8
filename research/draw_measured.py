"""Draw and tabulate numbers that an environment measures, before and after training, from a file of raw data.

    python research/draw_measured.py research/data/NAME.json.xz --tables "failed pairs" components --out NAME.svg

`--tables` names tables of `env.measure`; "components" are the parts of the score. The figure has a panel for each table
and a bar for each team: means over the seeds, with a dot for each seed. Teams before training are one row per
environment. A number that some seeds lack is the mean of the others; then the table states their count.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import raw_data
from draw_planning import shown, title_of
from matplotlib import pyplot as plt

Teams = Mapping[str, Sequence[Mapping[str, Any]]]  # points of the curves of a team, one per seed


def teams_of(rows: Sequence[dict[str, Any]]) -> Teams:
    """Return the last points of every environment and method, and the first ones of the first method of each."""
    teams: dict[str, list[Mapping[str, Any]]] = {}
    first = {title_of(row, "environment"): title_of(row, "method") for row in reversed(rows)}
    for row in rows:
        environment, method = title_of(row, "environment"), title_of(row, "method")
        if method == first[environment]:
            teams.setdefault(f"{environment}, untrained", []).append(row["curve"][0])
        teams.setdefault(f"{environment}, {method}", []).append(row["curve"][-1])
    return teams


def numbers(points: Sequence[Mapping[str, Any]], table: str, name: str) -> list[float]:
    """Return a measured number of each seed that has it."""
    tables = [{**point["measured"], "components": point["components"]}.get(table, {}) for point in points]
    return [found[name]["mean"] for found in tables if name in found]


def names_of(teams: Teams, table: str) -> list[str]:
    """Return the names of the numbers of a table."""
    tables = [
        {**point["measured"], "components": point["components"]}.get(table, {})
        for points in teams.values()
        for point in points
    ]
    return list(dict.fromkeys(name for found in tables for name in found))


def draw(teams: Teams, tables: Sequence[str], out: Path) -> None:
    """Draw a panel for each table."""
    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    mpl.rcParams.update({**style, "svg.hashsalt": out.stem, "svg.fonttype": "none"})
    figure, panels = plt.subplots(len(tables), 1, figsize=(9, 3 * len(tables)), layout="constrained", squeeze=False)
    width = 0.8 / len(teams)
    for axis, table in zip(panels[:, 0], tables, strict=True):
        names = names_of(teams, table)
        for place, (team, points) in enumerate(teams.items()):
            found = [numbers(points, table, name) for name in names]
            at = np.arange(len(names)) + width * (place - (len(teams) - 1) / 2)
            axis.bar(at, [np.mean(values) if values else 0.0 for values in found], width, label=team, color=f"C{place}")
            dots = [(x, value) for x, values in zip(at, found, strict=True) for value in values]
            axis.plot(*zip(*dots, strict=True), "k.", markersize=3)
        axis.set(title=table, xticks=range(len(names)), xticklabels=names)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def main() -> None:
    """Print a table of means with 95 % intervals for each measured table, and draw the figure if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--tables", nargs="+", required=True)
    parser.add_argument("--digits", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    teams = teams_of(raw_data.read(options.results))
    for table in options.tables:
        names = names_of(teams, table)
        print(f"\n| {table} | {' | '.join(names)} |", f"|{'---|' * (1 + len(names))}", sep="\n")
        for team, points in teams.items():
            found = [numbers(points, table, name) for name in names]
            cells = [shown(values, options.digits) if values else "" for values in found]
            known = [f", {len(v)} of {len(points)} seeds" if 0 < len(v) < len(points) else "" for v in found]
            cells = [f"{cell}{count}" for cell, count in zip(cells, known, strict=True)]
            print(f"| {team} | {' | '.join(cells)} |")
    if options.out:
        draw(teams, options.tables, options.out)


if __name__ == "__main__":
    main()
