"""Draw the output of the scripts in examples/libraries, and print it as a Markdown table.

    python research/draw_libraries.py research/data/libraries.json.xz --out docs/results/libraries.png

Each point is a fiftieth of the training episodes. Lines are means and bands are ranges of the seeds. The table has the
mean of the last tenth of the episodes, with 95 % t intervals over the seeds.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
import raw_data
from matplotlib.figure import Figure

from llm_dec_pomdp.evaluation.intervals import LEAST_SEEDS, mean_interval

COMMON = ("torch", "gymnasium", "pettingzoo")
Runs = dict[str, dict[str, list[dict[str, Any]]]]  # returns by task and learner


def table(tasks: Runs) -> list[list[str]]:
    """Return a row for each task and learner."""
    body: list[list[str]] = []
    for task, learners in tasks.items():
        for learner, runs in learners.items():
            first, last = runs[0], [run["last"] for run in runs]
            over = mean_interval(last)
            mean = f"{over.mean:.2f}" + (f" ({over.low:.2f} to {over.high:.2f})" if len(last) >= LEAST_SEEDS else "")
            libraries = {name: number for name, number in first["versions"].items() if name not in COMMON} or {
                "pettingzoo": first["versions"]["pettingzoo"]
            }
            versions = ", ".join(f"{name} {number}" for name, number in libraries.items())
            command = re.sub(r" --(seed|out) \S+", "", first["command"]).removeprefix("examples/libraries/")
            seeds = ", ".join(f"{value:.2f}" for value in last)
            body.append([task, learner, versions, f"`{command}`", f"{first['episodes']:,}", seeds, mean])
        body.append([task, "random play", "", "", "", "", f"{first['random']:.2f}"])
        body.append([task, "the best", "", "", "", "", f"{first['best']:.2f}"])
    return body


def draw(tasks: Runs, out: Path) -> None:
    """Draw a panel for each task."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(tasks)))
    for axes, (task, learners) in zip(panels, tasks.items(), strict=True):
        for learner, runs in learners.items():
            returns = np.array([run["returns"] for run in runs])
            episodes = runs[0]["episodes"] * (np.arange(returns.shape[1]) + 1) / returns.shape[1]
            (line,) = axes.plot(episodes, returns.mean(0), label=learner)
            axes.fill_between(episodes, returns.min(0), returns.max(0), alpha=0.15, color=line.get_color(), linewidth=0)
        for name in ("random", "best"):
            axes.axhline(runs[0][name], linestyle="--", linewidth=0.8, color="grey")
        axes.set(title=task, xlabel="training episodes", ylabel="return", xscale="log")
        axes.legend(fontsize=7)
    figure.savefig(out, dpi=130)


def main() -> None:
    """Print the table, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    tasks: Runs = {}
    for run in raw_data.read(arguments.results):
        tasks.setdefault(run["task"], {}).setdefault(run["learner"], []).append(run)
    head = ["task", "learner", "versions", "command", "episodes", "last tenth, by seed", "mean"]
    for row in [head, ["---"] * len(head), *table(tasks)]:
        print("| " + " | ".join(row) + " |")
    draw(tasks, arguments.out)


if __name__ == "__main__":
    main()
