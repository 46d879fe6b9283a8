"""Draw the learned and the true return of training runs on a learned reward, update by update.

    python research/draw_learned_reward.py RUN [RUN ...] --json FILE --out FIGURE

Each RUN is one seed. FILE receives the numbers of every seed. A thin line in the figure is a seed, the mean of its last
five updates. The thick line is the mean over seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import raw_data
from matplotlib.figure import Figure

WINDOW = 5  # updates of the running mean
SERIES = {"learnt": "mean_return", "true": "return_percent"}
LABELS = {"learnt": "learnt return, nats", "true": "true return, % of maximum"}


def main() -> None:
    """Collect the curves, write the file, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--json", type=Path, required=True, help="output file of the numbers")
    parser.add_argument("--out", type=Path, required=True, help="output file of the figure")
    arguments = parser.parse_args()
    runs = [collected(run) for run in arguments.runs]
    raw_data.write(arguments.json, runs)
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2), SERIES, strict=True):
        length = min(len(run[name]) for run in runs)
        lines = [smooth(run[name][:length]) for run in runs]
        for line in lines:
            axes.plot(range(1, length + 1), line, linewidth=0.8, alpha=0.6, color="tab:blue")
        axes.plot(range(1, length + 1), np.mean(lines, axis=0), linewidth=2.5, color="tab:blue")
        axes.set(xlabel="update", ylabel=LABELS[name])
    figure.savefig(arguments.out, dpi=130)


def collected(run: Path) -> dict[str, Any]:
    """Return the curves of the only run in a folder, and its evaluations of the true return."""
    [folder] = run.glob("cells/*")
    steps, curve = (
        [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]
        for name in ("train.jsonl", "curve.jsonl")
    )
    cell = json.loads((folder / "cell.json").read_text(encoding="utf-8"))
    tested = {point["step"]: point["return_percent"] for point in curve}
    return {"cell": cell, "tested": tested} | {name: [step[key] for step in steps] for name, key in SERIES.items()}


def smooth(values: Sequence[float]) -> list[float]:
    """Return the running mean of the last five values."""
    return [float(np.mean(values[max(0, end - WINDOW) : end])) for end in range(1, len(values) + 1)]


if __name__ == "__main__":
    main()
