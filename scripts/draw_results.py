"""Draw the pictures of docs/results/README.md that no other script makes, from the files beside them.

    python scripts/draw_results.py

overview.svg: left the return of every training update of SmolLM2 on tldr-v0, mean and range of the seeds over five
updates, and what held-out abstracts earn before and after; right regret on the textbook problems at horizon 3, means
with 95 % t intervals over the seeds. learners_seeds.svg: what every seed earned.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

RESULTS = Path(__file__).parent.parent / "docs" / "results"
STYLE = {
    "font.size": 11,
    "svg.hashsalt": "results",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
}
SMOOTHED, HORIZON = 5, "H=3"
METHODS = {
    "marloo": ("#1b6ca8", "MARLOO"),
    "magrpo": ("#c8553d", "MAGRPO"),
    "counterfactual": ("#3f8f5f", "counterfactual credit"),
    "crossed": ("#8a5fb0", "crossed texts"),
    "control": ("#7d8794", "control (shuffled)"),
}


def read(name: str) -> Any:
    """A file of raw data."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def writing(axes: Axes) -> None:
    """The three seeds of SmolLM2-135M with adapters, by update."""
    cells = [c for c in read("writing_smollm2.json") if c["cell"]["environment"]["id"] == "tldr-v0"]
    seeds = [c for c in cells if c["cell"]["training"]["steps"] == 64]
    window = np.ones(SMOOTHED) / SMOOTHED
    curves = np.array([np.convolve(c["training_return_percent"], window, "valid") for c in seeds])
    steps = np.arange(SMOOTHED, SMOOTHED + curves.shape[1])
    axes.fill_between(steps, curves.min(0), curves.max(0), color="#c8553d", alpha=0.25, linewidth=0)
    axes.plot(steps, curves.mean(0), color="#c8553d", label=f"training, {len(seeds)} seeds")
    for label, place in (("held out", -1), ("", 0)):
        points = [(c["curve"][place]["step"], c["curve"][place]["return_percent"]["mean"]) for c in seeds]
        mean = float(np.mean([value for _, value in points]))
        axes.plot(*zip(*points, strict=True), "o", color="#1c2733", label=label or None, markersize=5, clip_on=False)
        beside = {"xytext": (-8, -22), "ha": "right"} if place else {"xytext": (10, -4), "ha": "left"}
        axes.annotate(f"{mean:.0f} %", (points[0][0], mean), textcoords="offset points", **beside)
    axes.set(title="SmolLM2-135M on tldr-v0", xlabel="update", ylabel="return, % of the maximum")
    axes.set(xlim=(0, 64), ylim=(0, 100), xticks=range(0, 65, 16))
    axes.legend(loc="lower right", frameon=False)


def classics(axes: Axes) -> None:
    """Regret by problem and method."""
    lines = [line for line in read("classics.json")["lines"] if line["environment"].endswith(HORIZON)]
    problems = list(dict.fromkeys(line["environment"] for line in lines))
    for number, (method, (colour, label)) in enumerate(METHODS.items()):
        found = {
            line["environment"]: line["sections"]["regret"]["regret %"] for line in lines if line["method"] == method
        }
        means = np.array([found[problem]["mean"] for problem in problems])
        high = np.array([found[problem]["high"] for problem in problems])
        places = np.arange(len(problems)) + 0.15 * (number - 2)
        axes.errorbar(means, places, xerr=high - means, fmt="o", color=colour, label=label, markersize=4, linewidth=1)
    axes.set_yticks(range(len(problems)), [problem.split("-")[0] for problem in problems])
    axes.invert_yaxis()
    axes.set(title="Textbook problems, three turns", xlabel="regret, % (0: optimum, 100: random)", xlim=(0, 130))
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.2), ncol=3, frameon=False, fontsize=9, columnspacing=0.8)


def strip(axes: Axes, earned: dict[str, list[float]], title: str, label: str) -> None:
    """A row for each name: a dot for every seed, a bar at their mean."""
    for row, (name, values) in enumerate(earned.items()):
        colour = METHODS["control"][0] if "control" in name else METHODS["marloo"][0]
        axes.plot(values, [row] * len(values), "o", color=colour, alpha=0.6, markersize=6)
        axes.plot([np.mean(values)] * 2, [row - 0.3, row + 0.3], color="#1c2733", linewidth=2)
    axes.set_yticks(range(len(earned)), list(earned))
    axes.invert_yaxis()
    axes.set(title=title, xlabel=label)


def learners(axes: Axes, problem: str) -> None:
    """What every seed of every learner earned on a problem, the best first."""
    cells = [c for c in read("learners.json") if c["cell"]["environment"]["id"] == problem]
    earned: dict[str, list[float]] = {}
    for cell in cells:
        name = cell["cell"]["method"]["label"] or cell["cell"]["method"]["name"]
        earned.setdefault(name, []).append(cell["summary"]["return_percent"]["mean"])
    ranked = sorted(earned.items(), key=lambda pair: -float(np.mean(pair[1])))
    strip(axes, dict(ranked), problem, "return, %")


def main() -> None:
    """Draw all."""
    with mpl.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), width_ratios=(1, 1.15), layout="constrained")
        writing(left)
        classics(right)
        save(figure, "overview.svg")
        figure, both = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
        for axes, problem in zip(both, ("dectiger-v0", "tldr-v0"), strict=True):
            learners(axes, problem)
        save(figure, "learners_seeds.svg")


def save(figure: Figure, name: str) -> None:
    """Beside the raw data, without the time of day."""
    figure.savefig(RESULTS / name, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
