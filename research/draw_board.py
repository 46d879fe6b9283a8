"""Draw the return of each submission of the leaderboard in each task.

    python research/draw_board.py

Writes docs/results/board.svg. Shades and numbers are returns in %; an empty field was not played.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from llm_dec_pomdp.board import Submission, load, read

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "results" / "board.svg"
KINDS = ("model", "table", "exploit", "script")


def main() -> None:
    """Draw the figure."""
    tasks = [task.environment for task in load().tasks]
    found = [read(folder) for folder in sorted((ROOT / "board").iterdir()) if folder.is_dir()]

    def mean(submission: Submission) -> float:
        return fmean(result.statistics["return"].mean for result in submission.tasks)

    found.sort(key=lambda s: (KINDS.index(s.kind), -len(s.tasks), -mean(s)))
    grid = np.full((len(found), len(tasks)), np.nan)
    for row, submission in enumerate(found):
        for result in submission.tasks:
            grid[row, tasks.index(result.environment)] = result.statistics["return"].mean
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "board", "font.size": 10}):
        figure, axes = plt.subplots(figsize=(9, 1.2 + 0.34 * len(found)), layout="constrained")
        axes.imshow(np.clip(grid, 0, 100), cmap="Greens", vmin=-10, vmax=150, aspect="auto")
        for (row, column), value in np.ndenumerate(grid):
            if not np.isnan(value):
                axes.text(column, row, f"{value:.0f}", ha="center", va="center")
        axes.set_xticks(range(len(tasks)), tasks, rotation=25, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(found)), [f"{s.name} (exploit)" if s.kind == "exploit" else s.name for s in found])
        axes.tick_params(length=0)
        axes.set_title("Return in % of the scale of each task", loc="left", fontsize=11)
        axes.spines[:].set_visible(False)
        figure.savefig(OUT, metadata={"Date": None})


if __name__ == "__main__":
    main()
