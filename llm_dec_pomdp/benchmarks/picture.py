"""The learning curves of a run as one PNG, for slides and papers; the page draws its own."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..visible import visible
from .lines import Line, by_environment, return_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 3
_DASHES = ("--", ":", "-.", (0, (1, 3)))


def draw_curves(path: Path, all_lines: Sequence[Line]) -> bool:
    """Draw the test return over training, a panel per environment, three in a row, baselines as lines.

    Args:
        path: The picture.
        found: The lines of the report; a curve is the mean over a method's seeds, its band their range, or the 95 %
            interval of a single seed over its tasks.

    Returns:
        False when nothing was trained, and there is no picture.
    """
    panels = {name: group for name, group in by_environment(all_lines).items() if any(line.curve() for line in group)}
    if not panels:
        return False
    import matplotlib

    with matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # characters that the font lacks become boxes
        _draw(panels).savefig(path, dpi=130)
    return True


def _draw(panels: Mapping[str, Sequence[Line]]) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns, rows = min(len(panels), _COLUMNS), -(-len(panels) // _COLUMNS)
    figure = Figure(figsize=(5.5 * columns, 3.8 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for position, (environment, group) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(rows, columns, position)
        dashes = itertools.cycle(_DASHES)
        for line in group:
            seeds = f"seed {line.entries[0].cell.seed}" if len(line.entries) == 1 else f"{len(line.entries)} seeds"
            label = visible(f"{line.name}, {seeds}")
            label = f" {label}" if label.startswith("_") else label  # which would hide it from the legend
            curve = line.curve()
            if curve is None:
                axes.axhline(line.value.mean, linestyle=next(dashes), linewidth=1, color="0.4", label=label)
                continue
            (drawn,) = axes.plot(curve.episodes, curve.mean, marker="o", markersize=4, label=label)
            axes.fill_between(curve.episodes, curve.low, curve.high, alpha=0.2, color=drawn.get_color())
        axes.set(title=visible(environment), ylim=return_axis(group))
        axes.set(xlabel="training episodes", ylabel="test return, %")
        axes.legend(fontsize=7)
    return figure
