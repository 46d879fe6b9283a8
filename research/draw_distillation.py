"""Draw and tabulate on-policy distillation.

    python research/draw_distillation.py research/data/distil.json.xz --out docs/results/distillation.svg
    python research/draw_distillation.py research/data/distil_privileged.json.xz # only prints the tables

A panel for each task shows the return over the episodes of training. Lines are means and bands are ranges of the seeds;
the dashed line is a trained teacher.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import raw_data
from compare_results import over_seeds, title_of
from matplotlib import pyplot as plt

METHODS = ("distil", "trajectory", "imitation", "magrpo", "control")
GOAL = 80.0  # return in % whose cost is tabulated


def curve_of(row: dict[str, Any], key: str) -> list[float]:
    """Return a column of the evaluations of a run, the last one included."""
    if key == "return":
        return [point["return_percent"]["mean"] for point in row["curve"]]
    if key == "episodes":
        per_update = row["cell"]["training"]["prompts_per_step"] * row["cell"]["training"]["group_size"]
        return [point["step"] * per_update for point in row["curve"]]
    return [point[key] for point in row["curve"]]


def until(row: dict[str, Any], key: str) -> float | None:
    """Return the value of a column at the first evaluation with at least `GOAL`; None if there is none."""
    pairs = zip(curve_of(row, "return"), curve_of(row, key), strict=True)
    return next((spent for reached, spent in pairs if reached >= GOAL), None)


def cost(rows: Sequence[dict[str, Any]], key: str) -> str:
    """Return the mean of `until` over the seeds that reach the goal, and their number if not all do."""
    if not all(key == "episodes" or key in point for row in rows for point in row["curve"]):
        return ""
    reached = [spent for row in rows if (spent := until(row, key)) is not None]
    if not reached:
        return "not reached"
    return f"{np.mean(reached):,.0f}" + (f" ({len(reached)} of {len(rows)} seeds)" if len(reached) < len(rows) else "")


def table(groups: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    lines = [
        "| environment | method | seeds | after a quarter | after half | at the end | lowest seed | episodes to 80 % | "
        "completions to 80 % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, methods in groups.items():
        for method in (method for method in METHODS if method in methods):
            rows = methods[method]
            curves = np.array([curve_of(row, "return") for row in rows])
            steps = [point["step"] for point in rows[0]["curve"]]
            at = {share: [i for i, step in enumerate(steps) if step == steps[-1] * share] for share in (0.25, 0.5)}
            early = [f"{curves[:, places[0]].mean():.1f}" if places else "" for places in at.values()]
            last = curves[:, -1]
            cells = [
                *early,
                over_seeds(list(last)),
                f"{last.min():.1f}",
                cost(rows, "episodes"),
                cost(rows, "generations"),
            ]
            lines.append(f"| {name} | {method} | {len(rows)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def differences(groups: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Return the difference between distillation and other methods in the mean over the evaluations, paired by seed."""
    lines = ["| environment | mean of the curve minus that of | difference in points |", "|---|---|---|"]
    for name, methods in groups.items():
        means = {
            method: {row["cell"]["seed"]: float(np.mean(curve_of(row, "return"))) for row in rows}
            for method, rows in methods.items()
        }
        for method in (method for method in METHODS[1:] if method in means):
            gaps = [value - means[method][seed] for seed, value in means["distil"].items()]
            lines.append(f"| {name} | {method} | {over_seeds(gaps)} |")
    return "\n".join(lines)


def divergences(groups: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Return the reverse KL divergence in nats per token: means of the first two and the last two updates."""
    lines: list[str] = []
    for name, methods in groups.items():
        for method, rows in methods.items():
            curves = np.array([row["reverse_kl"] for row in rows if "reverse_kl" in row])
            if len(curves):
                ends = curves[:, :2].mean(1), curves[:, -2:].mean(1)
                lines.append(f"| {name} | {method} | {' | '.join(over_seeds(list(end), 3) for end in ends)} |")
    header = ["| environment | method | reverse KL, first two updates | last two updates |", "|---|---|---|---|"]
    return "\n".join([*header, *lines, ""]) if lines else ""


def draw(groups: dict[str, dict[str, list[dict[str, Any]]]], teachers: dict[str, float], out: Path) -> None:
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"})
    figure, axes = plt.subplots(1, len(groups), figsize=(2.9 * len(groups), 3.2), layout="constrained", squeeze=False)
    for axis, (name, methods) in zip(axes[0], groups.items(), strict=True):
        for method in (method for method in METHODS if method in methods):
            curves = np.array([curve_of(row, "return") for row in methods[method]])
            episodes = curve_of(methods[method][0], "episodes")
            colour = f"C{METHODS.index(method)}"
            axis.plot(episodes, curves.mean(0), color=colour, label=method)
            axis.fill_between(episodes, curves.min(0), curves.max(0), color=colour, alpha=0.1)
        if name in teachers:
            axis.axhline(teachers[name], ls="--", lw=1, color="grey")
        axis.set(title=name, xlabel="episodes")
    axes[0][0].set_ylabel("return, %")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    """Print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    teachers: dict[str, float] = {}
    for row in raw_data.read(options.data):
        task, method = title_of(row, "environment"), title_of(row, "method")
        if row["cell"]["seed"] == 10:  # the teachers
            teachers[task] = row["summary"]["return_percent"]["mean"]
        else:
            groups.setdefault(task, {}).setdefault(method, []).append(row)
    print(table(groups), differences(groups), divergences(groups), sep="\n\n")
    for task, value in teachers.items():
        print(f"teacher on {task}: {value:.1f}")
    if options.out:
        draw(groups, teachers, options.out)


if __name__ == "__main__":
    main()
