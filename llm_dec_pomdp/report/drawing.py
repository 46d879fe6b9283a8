"""Drawing of the figures by matplotlib: SVG inside the page, SVG and PDF for papers, PNG for Markdown."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import pickle
import re
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import escape

from ..printable import escape_controls
from ..storage.files import replacing
from .figures import Figure, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_COLUMNS = 3
_WIDTH, _HEIGHT, _ROW = 3.3, 2.3, 0.28  # width and height of a panel, and height of a bar with its name, in inches
_MARGINS = {"left": 0.15, "right": 0.94}  # of a single panel, as shares of its width
_ABOVE, _BELOW = 0.25, 0.45  # inches
_FEW = 30  # lines with at most this many points have markers
COLOURS = ("#0b66c3", "#c2570c", "#1a7f4b", "#a3338c", "#8a6d00", "#0e7c86", "#b3261e", "#5b5fc7")  # in light mode
_STYLE: dict[Any, Any] = {
    "text.parse_math": False,
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "black",
    "lines.linewidth": 1.2,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "llm_dec_pomdp",  # the same figure is the same file
    "pdf.fonttype": 42,
}


@contextlib.contextmanager
def _styled() -> Generator[None]:
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # characters missing in the font are drawn as boxes
        yield


def save(figure: Figure, *paths: Path) -> None:
    """Draw a figure into files, in the formats of their suffixes."""
    with _styled():
        drawing = _draw(figure)
        for path in paths:
            undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
            with replacing(path) as place:
                drawing.savefig(place, format=path.suffix[1:], dpi=130, metadata=undated)


def _draw(figure: Figure) -> Drawing:
    from matplotlib.figure import Figure as Drawing

    columns, rows = min(len(figure.panels), _COLUMNS), -(-len(figure.panels) // _COLUMNS)
    names = figure.legend
    height = max(map(_height, figure.panels)) * rows + 0.2 * -(-len(names) // columns)
    drawing = Drawing(figsize=(_WIDTH * columns, height), layout="constrained")
    handles: dict[str, Any] = {}
    for position, panel in enumerate(figure.panels, 1):
        handles = _draw_panel(drawing.add_subplot(rows, columns, position), panel) | handles  # first panel has priority
    if names:
        drawing.legend(handles.values(), handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=7)
    return drawing


def _height(panel: Panel) -> float:
    if panel.kind == "heat":
        return max(_HEIGHT, _ABOVE + _BELOW + _ROW * len(panel.data))
    return _ABOVE + _BELOW + _ROW * len(panel.data) if panel.kind == "bars" else _HEIGHT


def _draw_panel(axes: Any, panel: Panel) -> dict[str, Any]:
    """Draw a panel, and return the handles of a legend by name."""
    axes.set_title(escape_controls(panel.title), y=1.0)  # a fixed position saves the search for a free one
    axes.set_xlabel(escape_controls(panel.x_label))
    if panel.kind in ("bars", "heat"):
        (_draw_bars if panel.kind == "bars" else _draw_heat)(axes, panel)
        return {}
    axes.grid(axis="y", linewidth=0.4, alpha=0.3)
    axes.locator_params(axis="x", integer=panel.kind == "lines")  # the x axis of lines counts updates or episodes
    handles: dict[str, Any] = {}
    for name, rows in panel.data.groupby("name", sort=False):
        first, label, bounded = rows.iloc[0], _label(name), rows["low"].notna().any()
        colour = COLOURS[int(first.colour) % len(COLOURS)]
        if panel.kind == "points":
            errors = _errors(rows) if bounded else None
            handles[label] = axes.errorbar(rows["x"], rows["y"], errors, fmt="o", markersize=4, color=colour)
            continue
        dashes, marker = ("--", "") if first.dashed else ("-", "o" if len(rows) <= _FEW else "")
        (handles[label],) = axes.plot(rows["x"], rows["y"], color=colour, linestyle=dashes, marker=marker, markersize=3)
        if bounded:
            axes.fill_between(rows["x"], rows["low"], rows["high"], alpha=0.18, color=colour, linewidth=0)
    if panel.optimum is not None:
        axes.axhline(panel.optimum, color="black", linewidth=0.9, linestyle=":")
    axes.set_ylim(*_with_room(panel))
    return handles


def _draw_bars(axes: Any, panel: Panel) -> None:
    """Draw bars under their names, so that long names take no width from them."""
    for place, bar in enumerate(panel.data.itertuples()):
        colour = COLOURS[int(bar.colour) % len(COLOURS)]
        if math.isfinite(bar.y):
            axes.barh(place, bar.y, height=0.4, color=colour, alpha=0.55)
        if math.isfinite(bar.low):
            errors = _errors(panel.data.iloc[[place]])
            axes.errorbar(bar.y, place, xerr=errors, color="black", capsize=2)
        if len(bar.seeds) > 1:
            dots = {"markersize": 4, "color": colour, "markeredgecolor": "white", "markeredgewidth": 0.5, "zorder": 5}
            axes.plot(bar.seeds, [place] * len(bar.seeds), "o", **dots)
        name = axes.text(
            0.01, place - 0.28, escape_controls(bar.name), transform=axes.get_yaxis_transform(), fontsize=7
        )
        name.set_in_layout(False)
    axes.set_yticks([])
    axes.set_ylim(len(panel.data) - 0.5, -0.9)
    axes.axvline(0, color="black", linewidth=0.6)
    axes.set_xlim(*_with_room(panel))


def _draw_heat(axes: Any, panel: Panel) -> None:
    """Draw a number in every cell of a table, above a colour whose strength grows with the number."""
    from matplotlib.patches import Rectangle

    numbers = panel.data.to_numpy()
    least, span = numbers.min(), max(numbers.max() - numbers.min(), 1e-9)
    for row, column in np.ndindex(*numbers.shape):
        strength = 0.7 * (numbers[row, column] - least) / span
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=COLOURS[0], alpha=strength, linewidth=0))
        axes.text(column, row, f"{numbers[row, column]:.0f}", ha="center", va="center", fontsize=7)
    axes.set_xticks(range(numbers.shape[1]), map(escape_controls, panel.data.columns))
    axes.set_yticks(range(numbers.shape[0]), map(escape_controls, panel.data.index))
    axes.set_xlim(-0.5, numbers.shape[1] - 0.5)
    axes.set_ylim(numbers.shape[0] - 0.5, -0.5)


def _with_room(panel: Panel) -> tuple[float, float]:
    """Return the range of the value axis, slightly extended at the ends that have data."""
    low, high = panel.reach
    room = 0.03 * (high - low)
    return (low - room if low < 0 else low), high + room


def _errors(rows: Any) -> list[Any]:
    """Return the lengths of error bars below and above, in the form that matplotlib takes."""
    return [(rows["y"] - rows["low"]).clip(lower=0), (rows["high"] - rows["y"]).clip(lower=0)]


def _label(name: str) -> str:
    """Return a name for a legend; a leading space keeps matplotlib from hiding names that begin with an underscore."""
    text = escape_controls(name)
    return f" {text}" if text.startswith("_") else text


# --- inside a page ----------------------------------------------------------------------------------------------------

_OF_PAGE = {
    "#000000": "currentColor",
    "#ffffff": "var(--panel)",
    **{colour: f"var(--c{number})" for number, colour in enumerate(COLOURS)},
}
_KEPT = 256  # pictures


def inline(panel: Panel, about: str) -> str:
    """Return a panel as SVG for a page, with the colours of the page and without styles that its policy forbids.

    Args:
        panel: The panel. Recent drawings are cached, because the pages of a running benchmark repeat them.
        about: First part of the label for screen readers; the second part is the title of the panel.
    """
    title = escape(escape_controls(f"{about}: {panel.title}"))
    box = f"0 0 {72 * _WIDTH:g} {72 * _height(panel):g}"
    body = _drawn(pickle.dumps(panel))
    return f'<svg viewBox="{box}" role="img" aria-label="{title}"><title>{title}</title>{body}</svg>'


@functools.lru_cache(maxsize=_KEPT)
def _drawn(pickled: bytes) -> str:
    """Return the content of the SVG of a pickled panel."""
    from matplotlib.figure import Figure as Drawing

    panel: Panel = pickle.loads(pickled)
    written, height = io.StringIO(), _height(panel)
    with _styled():
        drawing = Drawing(figsize=(_WIDTH, height))
        drawing.subplots_adjust(**_MARGINS, top=1 - _ABOVE / height, bottom=_BELOW / height)
        drawing.patch.set_visible(False)
        axes = drawing.add_subplot()
        axes.patch.set_visible(False)
        _draw_panel(axes, panel)
        drawing.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = written.getvalue()
    body = text[text.index("<g ") : text.rindex("</svg>")]
    return re.sub(r"<[^>]*>", lambda tag: _of_page(tag[0]), body)


def _of_page(tag: str) -> str:
    """Return a tag of an SVG for a page: without ids, which pictures would share, and with short numbers."""
    tag = re.sub(r'^<g id="[^"]*"', "<g", " ".join(tag.split()))
    tag = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.1f}", tag)
    return re.sub(r' style="([^"]*)"', lambda style: _attributes(style[1]), tag)


def _attributes(style: str) -> str:
    """Return the declarations of a style as attributes, with the font of the page."""
    written = ""
    for name, _, value in (declaration.strip().partition(": ") for declaration in style.split(";")):
        if name == "font":
            name, value = "font-size", value.partition("px")[0].rpartition(" ")[2] + "px"
        if name and name != "font-family":
            written += f' {name}="{_OF_PAGE.get(value, value)}"'
    return written
