"""The learning curves of a run as one PNG, for slides and papers; the page draws its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from .runs import Entry

_DASHES = ("--", ":", "-.", (0, (1, 3)))


def draw_curves(path: Path, entries: Sequence[Entry]) -> bool:
    """Draw the test return over training, a panel per environment, baselines as lines.

    Args:
        path: The picture.
        entries: The cells of a run.

    Returns:
        False when nothing was trained, and there is no picture.
    """
    done = [entry for entry in entries if entry.result is not None]
    curves = {id(entry): entry.curve() for entry in done}
    panels = list(dict.fromkeys(entry.environment for entry in done if curves[id(entry)]))
    if not panels:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(panels), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    for position, environment in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), position)
        dashes = itertools.cycle(_DASHES)
        for entry in (one for one in done if one.environment == environment):
            label = f"{entry.method}, seed {entry.cell.seed}"
            points = curves[id(entry)]
            if points:
                x = [point["training_episodes"] for point in points]
                mean, low, high = ([p["return_percent"][which] for p in points] for which in ("mean", "low", "high"))
                (line,) = axes.plot(x, mean, marker="o", label=label)
                axes.fill_between(x, low, high, alpha=0.2, color=line.get_color())
            elif entry.result is not None:
                level = entry.result.summary.return_percent.mean
                axes.axhline(level, linestyle=next(dashes), linewidth=1, color="0.4", label=label)
        axes.set(title=environment, xlabel="training episodes", ylabel="test return, % of maximum", ylim=(0, 100))
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=130)
    return True
