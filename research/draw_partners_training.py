"""Draw and tabulate training with partners.

    python research/draw_partners_training.py research/data/partners_training.json.xz \
        --out docs/results/partners_training.svg

A panel for each task shows the return of teams with their own members, with a member of another seed, and of members in
held-out teams, for each training. Lines are 95 % intervals over teams.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import raw_data
from matplotlib import pyplot as plt

MEASURES = {"own": "own members", "other": "one member of another seed", "held_out": "in held-out teams"}
TITLES: dict[str, str] = {"control": "shuffled-reward control"}


def draw(rows: list[dict[str, Any]], out: Path) -> None:
    """Draw one panel for each task."""
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"})
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, axes = plt.subplots(1, len(tasks), figsize=(2.2 * len(tasks), 3.2), layout="constrained", sharey=True)
    for axis, task in zip(axes, tasks, strict=True):
        mine = [row for row in rows if row["task"] == task]
        for number, (measure, label) in enumerate(MEASURES.items()):
            found = [row[measure] for row in mine]
            places = [place + 0.22 * (number - 1) for place in range(len(mine))]
            means = [value["mean"] for value in found]
            errors = [[abs(value["mean"] - value[end]) for value in found] for end in ("low", "high")]
            axis.errorbar(places, means, errors, fmt="o", ms=4, lw=1.2, label=label)
        names = [str(TITLES.get(row["training"], row["training"])).replace("-reward ", "-\nreward ") for row in mine]
        axis.set_xticks(range(len(mine)), names, rotation=60, ha="right")
        axis.set(title=task, ylim=(min(0, *(row["other"]["mean"] for row in mine)) - 10, 105))
    axes[0].set_ylabel("return, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    """Print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = raw_data.read(options.data)
    columns = ("own", "other", "gap", "held_out")
    print("| task | partners | own | other seeds | gap | held-out |\n|---|---|---|---|---|---|")
    for row in rows:
        shown = (f"{row[c]['mean']:.1f} ({row[c]['low']:.1f} to {row[c]['high']:.1f})" for c in columns)
        print(f"| `{row['task']}` | {TITLES.get(row['training'], row['training'])} | {' | '.join(shown)} |")
    draw(rows, options.out)


if __name__ == "__main__":
    main()
