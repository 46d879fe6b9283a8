"""Figures of a report as files, drawn by matplotlib: SVG and PDF for papers, PNG for Markdown."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..storage.files import replacing
from ..visible import visible
from .figures import Bars, Figure, Panel, Points

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_COLUMNS = 3
_WIDTH, _HEIGHT, _ROW = 3.3, 2.3, 0.22  # inches of a panel, and of a bar
COLOURS = ("#0b66c3", "#c2570c", "#1a7f4b", "#a3338c", "#8a6d00", "#0e7c86", "#b3261e", "#5b5fc7")  # of the page by day
_STYLE: dict[Any, Any] = {
    "text.parse_math": False,
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "llm_dec_pomdp",  # the same figure is the same file
    "pdf.fonttype": 42,
}


def save(figure: Figure, *paths: Path) -> None:
    """Draw a figure into files; their suffixes say which format they get."""
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # characters that the font lacks become boxes
        drawing = _draw(figure)
        for path in paths:
            undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
            with replacing(path) as place:
                drawing.savefig(place, format=path.suffix[1:], dpi=130, metadata=undated)


def _draw(figure: Figure) -> Drawing:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    columns, rows = min(len(figure.panels), _COLUMNS), -(-len(figure.panels) // _COLUMNS)
    tallest = max(0.7 + _ROW * len(p.bars) if isinstance(p, Bars) else _HEIGHT for p in figure.panels)
    names = figure.legend
    height = tallest * rows + 0.2 * -(-len(names) // columns)
    drawing = Drawing(figsize=(_WIDTH * columns, height), layout="constrained")
    FigureCanvasAgg(drawing)
    handles: dict[str, Any] = {}
    for position, panel in enumerate(figure.panels, 1):
        handles = _draw_panel(drawing.add_subplot(rows, columns, position), panel) | handles  # the first one's stay
    if names:
        drawing.legend(handles.values(), handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=7)
    return drawing


def _draw_panel(axes: Any, panel: Panel) -> dict[str, Any]:
    """Draw it, and return the handles of a legend by name."""
    axes.set_title(visible(panel.title))
    axes.set_xlabel(visible(panel.x_label))
    if isinstance(panel, Bars):
        _draw_bars(axes, panel)
        return {}
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    handles: dict[str, Any] = {}
    for line in panel.series:
        colour, label = COLOURS[line.colour % len(COLOURS)], _label(line.name)
        if isinstance(panel, Points):
            errors = _errors(line.y, line.low, line.high) if line.low else None
            handles[label] = axes.errorbar(line.x, line.y, errors, fmt="o", markersize=4, color=colour)
            continue
        dashes, marker = ("--", "") if line.dashed else ("-", "o" if len(line.x) <= 30 else "")
        (handles[label],) = axes.plot(line.x, line.y, color=colour, linestyle=dashes, marker=marker, markersize=3)
        if line.low:
            axes.fill_between(line.x, line.low, line.high, alpha=0.18, color=colour, linewidth=0)
    axes.set_ylim(*_with_room(panel))
    return handles


def _draw_bars(axes: Any, panel: Bars) -> None:
    for place, bar in enumerate(panel.bars):
        colour, value = COLOURS[bar.colour % len(COLOURS)], bar.value
        axes.barh(place, value.mean, height=0.6, color=colour, alpha=0.55)
        if math.isfinite(value.low):
            axes.errorbar(
                value.mean, place, xerr=_errors([value.mean], [value.low], [value.high]), color="0.15", capsize=2
            )
        if len(bar.seeds) > 1:
            dots = {"markersize": 4, "color": colour, "markeredgecolor": "white", "markeredgewidth": 0.5, "zorder": 5}
            axes.plot(bar.seeds, [place] * len(bar.seeds), "o", **dots)
    axes.set_yticks(range(len(panel.bars)), [visible(bar.name) for bar in panel.bars])
    axes.invert_yaxis()
    axes.axvline(0, color="0.4", linewidth=0.6)
    axes.set_xlim(*_with_room(panel))


def _with_room(panel: Panel) -> tuple[float, float]:
    """The range of its axis, and a little more at the ends where something is drawn."""
    low, high = panel.reach
    room = 0.03 * (high - low)
    return (low - room if low < 0 else low), high + room


def _errors(middle: Sequence[float], low: Sequence[float], high: Sequence[float]) -> list[list[float]]:
    """Lengths below and above, as matplotlib takes them."""
    return [
        [max(m - bound, 0.0) for m, bound in zip(middle, low, strict=True)],
        [max(bound - m, 0.0) for m, bound in zip(middle, high, strict=True)],
    ]


def _label(name: str) -> str:
    """A name as a legend shows it; one that began with an underscore would be hidden."""
    shown = visible(name)
    return f" {shown}" if shown.startswith("_") else shown
