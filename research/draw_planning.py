"""Draw and tabulate the results of learners on the planning tasks.

    python research/draw_planning.py research/data/planning.json.xz --out docs/results/planning.png

The upper row shows regret over the updates, in % of the difference between silence and the optimum. Lines are means and
bands are ranges of the seeds. The lower row shows the turns and words of trained teams, a point for each seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import raw_data
from matplotlib import pyplot as plt

from llm_dec_pomdp.evaluation.intervals import LEAST_SEEDS, mean_interval


def title_of(row: dict[str, Any], part: str) -> str:
    named = row["cell"][part]
    return named.get("label") or named.get("id") or named["name"]


def measured(row: dict[str, Any], section: str, name: str) -> float:
    return row["summary"]["measured"][section][name]["mean"]


def draw(groups: dict[str, dict[str, list[dict[str, Any]]]], out: Path) -> None:
    mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    teams = {name: methods for name, methods in groups.items() if len(methods) > 2}
    figure, axes = plt.subplots(2, len(teams), figsize=(3.2 * len(teams), 6), layout="constrained", squeeze=False)
    names = [*dict.fromkeys(method for methods in teams.values() for method in methods)]
    for place, (name, methods) in enumerate(teams.items()):
        curve, used = axes[:, place]
        for method, rows in methods.items():
            regrets = [[100 - value for value in row["training_return_percent"]] for row in rows]
            steps = range(1, 1 + len(regrets[0]))
            points = [[measured(row, "dialogue", what) for row in rows] for what in ("words", "turns")]
            [dots] = used.plot(*points, "o", color=f"C{names.index(method)}", alpha=0.7, label=method)
            if steps:
                curve.plot(steps, np.mean(regrets, axis=0), color=dots.get_color())
                curve.fill_between(
                    steps, np.min(regrets, axis=0), np.max(regrets, axis=0), color=dots.get_color(), alpha=0.1
                )
        curve.set(title=name, xlabel="update", ylabel="regret, %", ylim=(0, None))
        used.set(xlabel="words of an episode", ylabel="turns")
    figure.legend(handles=axes[1, 0].get_lines(), loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(out, dpi=110)


def shown(values: Sequence[float], digits: int) -> str:
    if len(values) < LEAST_SEEDS:
        return f"{np.mean(values):.{digits}f}"
    found = mean_interval(values)
    return f"{found.mean:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in raw_data.read(arguments.results):
        groups.setdefault(title_of(row, "environment"), {}).setdefault(title_of(row, "method"), []).append(row)
    print("| environment | team | seeds | regret % | turns | words | settled % |\n|---|---|---|---|---|---|---|")
    for name, methods in groups.items():
        for method, rows in methods.items():
            percent = [100 - row["summary"]["return_percent"]["mean"] for row in rows]
            numbers = [[measured(row, "dialogue", what) for row in rows] for what in ("turns", "words", "settled %")]
            cells = [shown(percent, 1), *(shown(value, 1) for value in numbers)]
            print(f"| {name} | {method} | {len(rows)} | {' | '.join(cells)} |")
    draw(groups, arguments.out)


if __name__ == "__main__":
    main()
