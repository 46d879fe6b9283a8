"""The learning curves of a run as one PNG, for slides and papers; the page draws its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from .lines import Line, by_environment

_DASHES = ("--", ":", "-.", (0, (1, 3)))


def draw_curves(path: Path, found: Sequence[Line]) -> bool:
    """Draw the test return over training, a panel per environment, baselines as lines.

    Args:
        path: The picture.
        found: The lines of the report; a curve is the mean over a method's seeds, its band their range, or the 95 %
            interval of a single seed over its tasks.

    Returns:
        False when nothing was trained, and there is no picture.
    """
    panels = {name: group for name, group in by_environment(found).items() if any(line.curve() for line in group)}
    if not panels:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(panels), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    for position, (environment, group) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(1, len(panels), position)
        dashes = itertools.cycle(_DASHES)
        for line in group:
            seeds = f"seed {line.entries[0].cell.seed}" if len(line.entries) == 1 else f"{len(line.entries)} seeds"
            label = f"{line.name}, {seeds}"
            curve = line.curve()
            if curve is None:
                axes.axhline(line.value.mean, linestyle=next(dashes), linewidth=1, color="0.4", label=label)
                continue
            (drawn,) = axes.plot(curve.episodes, curve.mean, marker="o", markersize=4, label=label)
            axes.fill_between(curve.episodes, curve.low, curve.high, alpha=0.2, color=drawn.get_color())
        axes.set(title=environment, xlabel="training episodes", ylabel="test return, % of maximum", ylim=(0, 100))
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=130)
    return True
