"""Figures as inline SVG: lines with bands, bars, points.

Colours are CSS classes, so that the page can change them in dark mode. Every panel is 400 units wide and scales with
the page; marks show their numbers as tool tips.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .figures import Bars, Lines, Panel, Points

WIDTH, HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 26, 38
_ROW, _BAR = 30, 10  # of a bar with its name, and of the bar alone
COLOURS = 8  # classes c0 to c7
_FEW = 30  # points of a line that still have a mark each


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers that cover a range: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        high = low + 1.0
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class _Axes:
    """The plane of a picture: data to units."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: int = HEIGHT
    left: int = _LEFT

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        below = self.height - _BOTTOM
        return self.left + across * (WIDTH - self.left - _RIGHT), below - up * (below - _TOP)

    def frame(self, x_ticks: Sequence[float], y_ticks: Sequence[float], title: str, x_label: str) -> list[str]:
        """Grid, ticks and labels."""
        below = self.height - _BOTTOM
        parts = [f'<text class="title" x="{WIDTH / 2}" y="14" text-anchor="middle">{escape(title)}</text>']
        for value in y_ticks:
            _, y = self.at(self.x[0], value)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
        for value in x_ticks:
            x, _ = self.at(value, self.y[0])
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{below}"/>')
            said = f"{value:g}"
            half = 4 * len(said)  # half of its width; a label that would not fit is aligned with the edge
            anchor = "end" if x + half > WIDTH else "start" if x < half else "middle"
            parts.append(f'<text class="tick" x="{x:.1f}" y="{below + 15}" text-anchor="{anchor}">{said}</text>')
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        parts.append(
            f'<text class="label" x="{middle}" y="{self.height - 6}" text-anchor="middle">{escape(x_label)}</text>'
        )
        return parts


def svg(panel: Panel, about: str) -> str:
    """A panel as SVG; `about` names, with its title, the picture to readers who do not see it."""
    if isinstance(panel, Bars):
        return _bars(panel, about)
    return _points(panel, about) if isinstance(panel, Points) else _lines(panel, about)


def _lines(panel: Lines, about: str) -> str:
    """Lines with bands; few points have a mark and a tool tip each, many only the last."""
    axes, x_ticks, y_ticks = _plane(panel)
    parts = axes.frame(x_ticks, y_ticks, panel.title, panel.x_label)
    for line in panel.series:
        colour = f"c{line.colour % COLOURS}"
        if line.low and line.high:
            upper = [axes.at(x, y) for x, y in zip(line.x, line.high, strict=True)]
            lower = [axes.at(x, y) for x, y in zip(line.x, line.low, strict=True)]
            parts.append(f'<polygon class="band {colour}" points="{_places([*upper, *reversed(lower)])}"/>')
        places = [axes.at(x, y) for x, y in zip(line.x, line.y, strict=True)]
        dashed = ' stroke-dasharray="6 4"' if line.dashed else ""
        parts.append(f'<polyline class="line {colour}"{dashed} points="{_places(places)}"/>')
        marked = list(zip(places, line.x, line.y, strict=True))
        shown = [] if line.dashed else marked if len(marked) <= _FEW else marked[-1:]
        parts += [_mark(place, colour, f"{line.name}: {_number(y)} at {x:g}") for place, x, y in shown]
    return _whole(panel, about, parts)


def _points(panel: Points, about: str) -> str:
    """Points with vertical intervals."""
    axes, x_ticks, y_ticks = _plane(panel)
    parts = axes.frame(x_ticks, y_ticks, panel.title, panel.x_label)
    for cloud in panel.series:
        colour = f"c{cloud.colour % COLOURS}"
        for low, high, x in zip(cloud.low, cloud.high, cloud.x, strict=bool(cloud.low)):
            (at, bottom), (_, top) = axes.at(x, low), axes.at(x, high)
            interval = f'x1="{at:.1f}" x2="{at:.1f}" y1="{bottom:.1f}" y2="{top:.1f}"'
            parts.append(f'<line class="line {colour}" {interval}/>')
        parts += [
            _mark(axes.at(x, y), colour, f"{cloud.name}: {_number(y)} at {_number(x)}", radius=5)
            for x, y in zip(cloud.x, cloud.y, strict=True)
        ]
    return _whole(panel, about, parts)


def _bars(panel: Bars, about: str) -> str:
    """Horizontal bars under their names, with intervals and a dot per seed; what is not finite is left out."""
    x_ticks = ticks(*panel.reach)
    height = _TOP + _BOTTOM + len(panel.bars) * _ROW
    axes = _Axes((x_ticks[0], x_ticks[-1]), (0.0, 1.0), height, left=_RIGHT)
    parts = axes.frame(x_ticks, (), panel.title, panel.x_label)
    zero, _ = axes.at(0.0, 0.0)
    for number, bar in enumerate(panel.bars):
        top, colour = _TOP + number * _ROW, f"c{bar.colour % COLOURS}"
        middle = top + 15 + _BAR / 2
        parts.append(f'<text class="tick" x="{_RIGHT + 2}" y="{top + 12}">{escape(bar.name)}</text>')
        value = bar.value
        if math.isfinite(value.mean):
            end, _ = axes.at(value.mean, 0.0)
            tip = f"<title>{escape(bar.name)}: {_number(value.mean)}</title>"
            parts.append(
                f'<rect class="bar {colour}" x="{min(zero, end):.1f}" y="{top + 15}" '
                f'width="{abs(end - zero):.1f}" height="{_BAR}">{tip}</rect>'
            )
        if math.isfinite(value.low) and math.isfinite(value.high):
            (left, _), (right, _) = axes.at(value.low, 0.0), axes.at(value.high, 0.0)
            parts.append(f'<line class="whisker" x1="{left:.1f}" x2="{right:.1f}" y1="{middle}" y2="{middle}"/>')
        for seed in bar.seeds if len(bar.seeds) > 1 else ():
            parts.append(_mark((axes.at(seed, 0.0)[0], middle), f"{colour} seed", f"{bar.name}: {_number(seed)}"))
    return _whole(panel, about, parts, height)


def legend(names: Mapping[str, int]) -> str:
    """Names with the numbers of their colours, as HTML: it wraps where a picture cannot."""
    items = "".join(f'<li><i class="c{colour % COLOURS}"></i>{escape(name)}</li>' for name, colour in names.items())
    return f'<ul class="legend">{items}</ul>'


def _plane(panel: Lines) -> tuple[_Axes, Sequence[float], Sequence[float]]:
    xs = [x for line in panel.series for x in line.x if math.isfinite(x)]
    x_ticks = ticks(min([*xs, 0.0]), max([*xs, 0.0]))
    y_ticks = ticks(*panel.reach)
    return _Axes((x_ticks[0], x_ticks[-1]), (y_ticks[0], y_ticks[-1])), x_ticks, y_ticks


def _places(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places if math.isfinite(x) and math.isfinite(y))


def _number(value: float) -> str:
    """With one decimal, or as many as a small one needs."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _mark(place: tuple[float, float], colour: str, tip: str, radius: int = 3) -> str:
    if not all(map(math.isfinite, place)):
        return ""
    return (
        f'<circle class="mark {colour}" cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{radius}">'
        f"<title>{escape(tip)}</title></circle>"
    )


def _whole(panel: Panel, about: str, parts: Sequence[str], height: int = HEIGHT) -> str:
    title = escape(f"{about}: {panel.title}", quote=True)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )
