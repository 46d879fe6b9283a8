"""Draw and tabulate the measurements of document-v0, support-v0 and review-v0.

    python research/draw_roles.py document research/data/document.json.xz --out docs/results/document.svg
    python research/draw_roles.py user research/data/user.json.xz --out docs/results/user.svg
    python research/draw_roles.py review research/data/review.json.xz --out docs/results/review.svg

The table has a row for each environment, method and table of `env.measure`. Dots are seeds, and lines and bars are
means.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import raw_data
from draw_planning import shown, title_of
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]
Groups = Mapping[tuple[str, str], Rows]
COLOURS = {"magrpo": "C0", "control": "C7", "careful": "C1", "optimal": "C2"}
DRAFTS = {2: 72.2, 4: 75.0, 8: 69.4}  # % for the best drafts that the editor accepts, by writers (enumeration)
PERSONAS = ("calm", "hurried", "forgetful", "undecided")


def returned(rows: Rows) -> list[float]:
    return [row["summary"]["return_percent"]["mean"] for row in rows]


def measured(rows: Rows, section: str, column: str) -> list[float]:
    return [row["summary"]["measured"][section][column]["mean"] for row in rows]


def document(groups: Groups) -> Figure:
    """Draw the return by the number of writers."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    lines = {
        "magrpo": ("", "magrpo", "C0"),
        "scripted editor": (", scripted editor", "magrpo", "C2"),
        "control": ("", "control", "C7"),
    }
    for label, (ending, method, colour) in lines.items():
        found = {
            n: returned(groups[f"{n} writers{ending}", method])
            for n in DRAFTS
            if (f"{n} writers{ending}", method) in groups
        }
        axes.plot([*found], [np.mean(values) for values in found.values()], color=colour, label=label)
        for n, values in found.items():
            axes.scatter([n] * len(values), values, color=colour, s=14)
    axes.plot([*DRAFTS], [*DRAFTS.values()], "k--", linewidth=1, label="best drafts without corrections")
    axes.set(title="document-v0", xlabel="writers", xticks=[*DRAFTS], ylabel="return %", ylim=(40, 102))
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    return figure


def user(groups: Groups) -> Figure:
    """Draw the return and the satisfaction by persona."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    for panel, column, unit in zip(axes, ("return", "satisfaction %"), (1, 100), strict=True):
        for offset, method in enumerate(("control", "magrpo", "careful", "optimal")):
            rows = groups["support-v0", method]
            for place, persona in enumerate(PERSONAS):
                values = [value / unit for value in measured(rows, f"{persona} user", column)]
                at = place + 0.2 * (offset - 1.5)
                panel.bar(at, np.mean(values), 0.2, color=COLOURS[method], label="" if place else method)
                if method in ("control", "magrpo"):
                    panel.scatter([at] * len(values), values, color="k", s=5, zorder=3)
        panel.set(title=column.removesuffix(" %"), xticks=range(len(PERSONAS)), xticklabels=PERSONAS)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    return figure


def review(groups: Groups) -> Figure:
    """Draw killed mutants, scores of modules and the worth of the reviewer."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    for panel, column in zip(axes, ("killed %", "worth"), strict=True):
        for place, ((_, method), rows) in enumerate(groups.items()):
            values = measured(rows, "review", column)
            panel.bar(place, np.mean(values), color=COLOURS[method])
            panel.scatter([place] * len(values), values, color="k", s=6, zorder=3)
        names = [f"{name}, control" if method == "control" else name for name, method in groups]
        panel.set(title=column, xticks=range(len(names)))
        panel.set_xticklabels(names, rotation=40, ha="right", fontsize=8)
    return figure


DRAWN: Mapping[str, Callable[[Groups], Figure]] = {"document": document, "user": user, "review": review}


def main() -> None:
    """Print the table, and draw the figure if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*DRAWN])
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in raw_data.read(options.results):
        groups.setdefault((title_of(row, "environment"), title_of(row, "method")), []).append(row)
    heads: list[str] = []
    for (environment, method), rows in groups.items():
        tables = rows[0]["summary"]["measured"]
        for section in [name for name in tables if name.split()[-1] == options.kind]:
            columns = [
                column
                for column in tables[section]
                if all(column in row["summary"]["measured"][section] for row in rows)
            ]
            if heads != columns:
                heads = columns
                print("| " + " | ".join(["environment", "method", "table", "return %", *heads]) + " |")
                print("|" + "---|" * (4 + len(heads)))
            found = [measured(rows, section, column) for column in columns]
            cells = [
                shown(values, 1 if column.endswith("%") else 2) for column, values in zip(columns, found, strict=True)
            ]
            print("| " + " | ".join([environment, method, section, shown(returned(rows), 1), *cells]) + " |")
    if options.out:
        mpl.rcParams.update(
            {"font.size": 10, "svg.hashsalt": options.kind, "axes.spines.top": False, "axes.spines.right": False}
        )
        DRAWN[options.kind](groups).savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
