"""Pictures as inline SVG: lines with bands, bars, points. Colours are classes: a page decides them for day and night.

Every picture has a view box of 640 units in width and scales with the page; marks carry their numbers as tool tips.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 44
COLOURS = 8  # classes c0 to c7


@dataclass(frozen=True, slots=True)
class Series:
    """A named line or cloud.

    Attributes:
        name: In the legend.
        x, y: Its points.
        low, high: Bounds of a band around it; empty for none.
        dashed: For what is not measured over the axis: a constant, or a published number.
        colour: Number of its colour.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dashed: bool = False
    colour: int = 0


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers that cover a range: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        high = low + 1.0
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class _Axes:
    """The plane of a picture: data to units."""

    x: tuple[float, float]
    y: tuple[float, float]
    height: int = HEIGHT

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        below = self.height - _BOTTOM
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), below - up * (below - _TOP)

    def frame(self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str) -> list[str]:
        """Grid, ticks and labels."""
        below = self.height - _BOTTOM
        parts: list[str] = []
        for value in y_ticks:
            _, y = self.at(self.x[0], value)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
        for value in x_ticks:
            x, _ = self.at(value, self.y[0])
            parts.append(f'<text class="tick" x="{x:.1f}" y="{below + 16}" text-anchor="middle">{value:g}</text>')
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        parts.append(
            f'<text class="label" x="{middle}" y="{self.height - 8}" text-anchor="middle">{escape(x_label)}</text>'
        )
        turned = f'transform="translate(13 {(below + _TOP) / 2}) rotate(-90)"'
        parts.append(f'<text class="label" {turned} text-anchor="middle">{escape(y_label)}</text>')
        return parts


def line_chart(
    series: Sequence[Series], *, title: str, x_label: str, y_label: str, y_range: tuple[float, float] | None = None
) -> str:
    """Lines with bands, each with a mark and a tool tip per point."""
    axes, x_ticks, y_ticks = _plane(series, y_range)
    parts = axes.frame(x_ticks, y_ticks, x_label, y_label)
    for line in series:
        colour = f"c{line.colour % COLOURS}"
        if line.low and line.high:
            upper = [axes.at(x, y) for x, y in zip(line.x, line.high, strict=True)]
            lower = [axes.at(x, y) for x, y in zip(line.x, line.low, strict=True)]
            parts.append(f'<polygon class="band {colour}" points="{_points([*upper, *reversed(lower)])}"/>')
        places = [axes.at(x, y) for x, y in zip(line.x, line.y, strict=True)]
        dashed = ' stroke-dasharray="6 4"' if line.dashed else ""
        parts.append(f'<polyline class="line {colour}"{dashed} points="{_points(places)}"/>')
        if not line.dashed and len(places) <= 30:
            parts += [
                _mark(place, colour, f"{line.name}: {_number(y)} at {x:g}")
                for place, x, y in zip(places, line.x, line.y, strict=True)
            ]
    return _svg(title, parts)


def scatter(series: Sequence[Series], *, title: str, x_label: str, y_label: str) -> str:
    """Points with vertical intervals, a series each."""
    axes, x_ticks, y_ticks = _plane(series, (0.0, 100.0))
    parts = axes.frame(x_ticks, y_ticks, x_label, y_label)
    for cloud in series:
        colour = f"c{cloud.colour % COLOURS}"
        for i, (x, y) in enumerate(zip(cloud.x, cloud.y, strict=True)):
            if cloud.low and cloud.high:
                (at, bottom), (_, top) = axes.at(x, cloud.low[i]), axes.at(x, cloud.high[i])
                interval = f'x1="{at:.1f}" x2="{at:.1f}" y1="{bottom:.1f}" y2="{top:.1f}"'
                parts.append(f'<line class="line {colour}" {interval}/>')
            place = axes.at(x, y)
            parts.append(_mark(place, colour, f"{cloud.name}: {y:.1f} at {x:g}", radius=6))
            right = place[0] < WIDTH * 0.7
            anchor, shift = ("start", 9) if right else ("end", -9)
            parts.append(
                f'<text class="tick" x="{place[0] + shift:.1f}" y="{place[1] - 7:.1f}" text-anchor="{anchor}">'
                f"{escape(cloud.name)}</text>"
            )
    return _svg(title, parts)


def bar_chart(
    rows: Mapping[str, Sequence[tuple[float, float, float]]],
    names: Mapping[str, int],
    *,
    title: str,
    x_label: str,
) -> str:
    """Horizontal bars with intervals, a block per row.

    Args:
        rows: By name of the row, a (mean, low, high) per name; NaN is left out.
        names: Whose bars they are, with the numbers of their colours.
        title: For readers who do not see the picture.
        x_label: What the bars measure.
    """
    bar, gap, label = 15, 14, 16
    height = _TOP + _BOTTOM + len(rows) * (label + len(names) * bar + gap)
    finite = [v for values in rows.values() for triple in values for v in triple if math.isfinite(v)]
    x_ticks = ticks(min(0.0, *finite, 0.0), max([*finite, 1e-6]))
    axes = _Axes((x_ticks[0], x_ticks[-1]), (0.0, 1.0), height)
    parts = axes.frame(x_ticks, (), x_label, "")
    zero, _ = axes.at(0.0, 0.0)
    top = float(_TOP)
    for row, values in rows.items():
        parts.append(f'<text class="tick" x="{_LEFT}" y="{top + 11:.1f}">{escape(row)}</text>')
        top += label
        for (name, colour), (mean, low, high) in zip(names.items(), values, strict=True):
            if math.isfinite(mean):
                end, _ = axes.at(mean, 0.0)
                tip = f"<title>{escape(row)}, {escape(name)}: {mean:.2f}</title>"
                parts.append(
                    f'<rect class="bar c{colour % COLOURS}" x="{min(zero, end):.1f}" y="{top:.1f}" '
                    f'width="{abs(end - zero):.1f}" height="{bar - 3}">{tip}</rect>'
                )
            if math.isfinite(low) and math.isfinite(high):
                (left, _), (right, _) = axes.at(low, 0.0), axes.at(high, 0.0)
                y = top + (bar - 3) / 2
                parts.append(f'<line class="whisker" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
            top += bar
        top += gap
    return _svg(title, parts, height)


def legend(names: Mapping[str, int]) -> str:
    """Names with the numbers of their colours, as HTML: it wraps where a picture cannot."""
    items = "".join(f'<li><i class="c{colour % COLOURS}"></i>{escape(name)}</li>' for name, colour in names.items())
    return f'<ul class="legend">{items}</ul>'


def _plane(
    series: Sequence[Series], y_range: tuple[float, float] | None
) -> tuple[_Axes, Sequence[float], Sequence[float]]:
    xs = [x for line in series for x in line.x]
    ys = [y for line in series for y in (*line.y, *line.low, *line.high) if math.isfinite(y)]
    x_ticks = ticks(min([*xs, 0.0]), max([*xs, 1e-6]))
    y_ticks = ticks(*(y_range or (min([*ys, 0.0]), max([*ys, 1e-6]))))
    return _Axes((x_ticks[0], x_ticks[-1]), (y_ticks[0], y_ticks[-1])), x_ticks, y_ticks


def _points(places: Sequence[tuple[float, float]]) -> str:
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


def _svg(title: str, parts: Sequence[str], height: int = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
