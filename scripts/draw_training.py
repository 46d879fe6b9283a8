"""Draw the return of the training episodes, update by update, from files that `collect_results.py` wrote.

    python scripts/draw_training.py docs/results/NAME.json [...] --out docs/results/NAME.png

Thin lines are single updates, thick ones the mean of the last five; a dot is the return on held-out tasks with the
95 % interval of its seed over these tasks. Cells that were not trained, or not changed (learning rate 0), are left out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from matplotlib.figure import Figure

WINDOW = 5  # updates of the running mean


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for entry in (entry for path in arguments.results for entry in json.loads(path.read_text(encoding="utf-8"))):
        returns, cell = entry["training_return_percent"], entry["cell"]
        if not returns or cell["method"]["options"].get("learning_rate") == 0:
            continue
        means = [
            sum(part) / len(part) for part in (returns[max(0, i - WINDOW) : i] for i in range(1, len(returns) + 1))
        ]
        (line,) = axes.plot(range(1, len(returns) + 1), means, linewidth=2, label=cell["environment"]["id"])
        axes.plot(range(1, len(returns) + 1), returns, linewidth=0.6, alpha=0.6, color=line.get_color())
        for point in entry["curve"]:
            value = point["return_percent"]
            spread = [[value["mean"] - value["low"]], [value["high"] - value["mean"]]]
            axes.errorbar(
                point["step"], value["mean"], spread, fmt="o", markersize=4, capsize=3, color=line.get_color()
            )
    axes.set(xlabel="update", ylabel="return, % of maximum", ylim=(0, 100))
    axes.legend()
    figure.savefig(arguments.out, dpi=130)


if __name__ == "__main__":
    main()
