"""The data of the figures of a report, as tables of pandas; `drawing` draws them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from ..evaluation.intervals import Interval
from ..results.lines import Curve, MethodResult, by_environment, return_axis
from .findings import THRESHOLDS, Findings, Overall

_DIAGNOSTICS = {  # metrics of updates: their meaning, and the least upper end of the axis
    "truncated": ("share of completions that reached the token limit", 1.0),
    "length": ("tokens per completion", 1.0),
    "groups_without_signal": ("share of groups in which all advantages are zero", 1.0),
    "advantage_spread": ("standard deviation of the advantages", 1.0),
    "surprisal": ("mean negative log-likelihood of the sampled tokens, in nats", 1.0),
    "sampler_gap": ("mean difference in the log-probability of a token between trainer and sampler", 0.05),
    "sampler_gap_max": ("largest such difference", 0.05),
    "clipped": ("share of importance ratios outside the clip range", 1.0),
    "explained_variance": ("share of the variance of returns that the critics predict", 1.0),
}
_ROUNDING = 1e-6  # a smaller range counts as zero
_BANDS = "Lines are means over seeds, and bands the range of the seeds."
_BARS = (
    "Bars are means, and dots single seeds. Whiskers are 95 % intervals over seeds and tasks; with one seed, over the "
    "tasks of that seed; with two seeds, there are none."
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot with its own axes.

    Attributes:
        kind: "lines" with bands, "points" with intervals, horizontal "bars" from 0 with intervals, or a "heat" map.
        title, x_label: Title above the plot, and label of the x axis.
        data: A `pandas.DataFrame` with a row for each point or bar, see `rows`; for a heat map the numbers themselves,
            with names of rows and columns.
        limits: Range of the y axis. None: from the least to the largest value, including 0; 0 to 1 if all are 0.
        optimum: The best possible value, shown as a dotted line; None for no line.
    """

    kind: Literal["lines", "points", "bars", "heat"]
    title: str
    x_label: str
    data: Any
    limits: tuple[float, float] | None = None
    optimum: float | None = None

    @property
    def values(self) -> list[float]:
        """All finite values on the y axis."""
        shown = [*self.data[["y", "low", "high"]].to_numpy().ravel(), *itertools.chain(*self.data["seeds"])]
        return [float(value) for value in shown if math.isfinite(value)]

    @property
    def reach(self) -> tuple[float, float]:
        """The range of the y axis."""
        low, high = self.limits or (min([0.0, *self.values]), max([0.0, *self.values]))
        return (low, high) if self.limits or high - low > _ROUNDING else (0.0, 1.0)


def rows(
    name: str,
    colour: int,
    x: Sequence[float],
    y: Sequence[float],
    low: Sequence[float] = (),
    high: Sequence[float] = (),
    *,
    dashed: bool = False,
    seeds: Sequence[float] = (),
) -> Any:
    """Return the rows of a line or a point for the data of a `Panel`.

    Args:
        name: Name in the legend.
        colour: Number of the colour.
        x, y: Coordinates of the points.
        low, high: Bounds of a band or of intervals; empty for none.
        dashed: For a method that was measured only once.
        seeds: For a bar, the values of single seeds, drawn as dots.
    """
    low, high = (bound if len(bound) else [math.nan] * len(y) for bound in (low, high))
    points = pd.DataFrame({"x": x, "y": y, "low": low, "high": high, "colour": colour, "dashed": dashed})
    names = pd.Series([name] * len(y), dtype=object)  # a string type of pandas refuses lone surrogates
    return points.assign(name=names, seeds=[tuple(seeds)] * len(y))


def bar(name: str, colour: int, value: Interval, seeds: Sequence[float] = ()) -> Any:
    """Return the row of a bar: a mean, a whisker if the mean has bounds, and the values of single seeds."""
    return rows(name, colour, [math.nan], [value.mean], [value.low], [value.high], seeds=seeds)


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels under one caption.

    Attributes:
        about: An environment, or "all environments".
        name: Content in one word; together with `about` the name of the files of the figure.
        caption: Caption in full sentences.
        panels: The plots, row by row.
        folded: Whether the page hides the figure until it is opened.
    """

    about: str
    name: str
    caption: str
    panels: Sequence[Panel]
    folded: bool = False

    @property
    def legend(self) -> dict[str, int]:
        """Names and colours of the lines and points; bars and heat maps are labelled directly."""
        drawn = [panel.data for panel in self.panels if panel.kind in ("lines", "points")]
        pairs = {(name, colour) for data in drawn for name, colour in zip(data["name"], data["colour"], strict=True)}
        return dict(sorted(pairs, key=lambda pair: pair[1]))


def figures(found: Findings) -> list[Figure]:
    """Return all figures of a report: first over all environments, then by environment."""
    colours = colours_of(found)
    first = [over_all(found.overall, colours)] if found.overall else []
    return first + [
        figure for group in by_environment(found.lines).values() for figure in of_environment(group, colours)
    ]


def learning_curves(found: Findings) -> Figure | None:
    """Return the figure of the test return during training on every environment; None if nothing was trained."""
    colours = colours_of(found)
    candidates = [learning(group, colours, about) for about, group in by_environment(found.lines).items()]
    panels = [panel for panel in candidates if panel]
    caption = f"Test return during training, in % of the maximum. {_curves_caption(panels)}"
    return Figure("all environments", "learning", caption, panels) if panels else None


def _curves_caption(panels: Sequence[Panel]) -> str:
    """Return the caption that explains lines and bands of learning curves."""
    sentences = [
        "Lines are means over seeds, and bands the range of the seeds; with one seed, bands are 95 % intervals over "
        "tasks."
    ]
    if any(panel.data["dashed"].any() for panel in panels):
        sentences.append("Dashed lines are methods that do not learn.")
    if any(panel.optimum is not None for panel in panels):
        sentences.append("The dotted line is the optimum.")
    return " ".join(sentences)


def colours_of(found: Findings) -> dict[str, int]:
    """Return a colour number for every method, the same in all figures."""
    return {name: number for number, name in enumerate(dict.fromkeys(line.name for line in found.lines))}


def of_environment(group: Sequence[MethodResult], colours: Mapping[str, int]) -> list[Figure]:
    """Return the figures of one environment, without empty ones."""
    about = group[0].environment
    training, updates = _training(group, colours)
    parts, empty = _parts(group, colours)
    zero = f" Zero for all methods: {', '.join(empty)}." if empty else ""
    listed = [
        _returns(group, colours),
        Figure(about, "parts", f"Reward parts of the last turn of an episode.{zero} {_BARS}", parts),
        Figure(about, "training", f"Return and reward parts of the training episodes, by update. {_BANDS}", training),
        Figure(about, "updates", _updates_caption(updates), updates, folded=True),
    ]
    return [figure for figure in listed if figure.panels]


# --- returns ----------------------------------------------------------------------------------------------------------


def _returns(group: Sequence[MethodResult], colours: Mapping[str, int]) -> Figure:
    """Return the figure of the test return: during training, at the end, and by response time, if measured."""
    bars: Any = pd.concat(
        bar(line.name, colours[line.name], line.value, [s.return_percent.mean for s in line.summaries])
        for line in group
    )
    curves, speed = learning(group, colours), _speed(group, colours)
    caption = [*([_curves_caption([curves])] if curves else []), _BARS]
    if speed:
        caption.append("Return by response time: up and to the left is better.")
    panels = [*([curves] if curves else []), Panel("bars", "return", "% of maximum", bars), *speed]
    return Figure(group[0].environment, "return", " ".join(caption), panels)


def learning(group: Sequence[MethodResult], colours: Mapping[str, int], title: str = "test return, %") -> Panel | None:
    """Return the panel of the test return during training; None if no method learns.

    Methods that do not learn are dashed lines.
    """
    trained = [(line, line.curve()) for line in group]
    curves = [curve for _, curve in trained if curve is not None]
    if not curves:
        return None
    longest = max(curve.x[-1] for curve in curves)
    data = pd.concat(
        rows(line.name, colours[line.name], [0.0, longest], [line.value.mean] * 2, dashed=True)
        if curve is None
        else _rows_of(line, curve, colours)
        for line, curve in trained
    )
    low, high = return_axis(group)
    optimum = _optimum(group[0])
    return Panel("lines", title, "training episodes", data, (low, max(high, optimum or high)), optimum)


def _optimum(line: MethodResult) -> float | None:
    """Return the optimum of an environment on its percent scale; None if it is unknown."""
    known, result = line.measured("regret"), line.entries[0].result
    return result.scale.percent(known[0]["optimum"].mean) if known and result else None


def _rows_of(line: MethodResult, curve: Curve, colours: Mapping[str, int]) -> Any:
    return rows(line.name, colours[line.name], curve.x, curve.mean, curve.low, curve.high)


def _speed(group: Sequence[MethodResult], colours: Mapping[str, int]) -> list[Panel]:
    """Return the panel of the return by response time: of single tasks if measured, else of batches."""
    alone = all(summary.latency is not None for line in group for summary in line.summaries)
    measured: list[Any] = []
    for line in group:
        seconds, v = line.mean(lambda s: s.latency.mean if alone and s.latency else s.response_seconds), line.value
        if math.isfinite(seconds) and math.isfinite(v.mean):
            measured.append(rows(line.name, colours[line.name], [seconds], [v.mean], [v.low], [v.high]))
    if not any(row["x"].item() > 0 for row in measured):  # policies such as tables take no time
        return []
    x_label = f"seconds per turn of the team, {'one task at a time' if alone else 'in batches'}"
    return [Panel("points", "return (%) by response time", x_label, pd.concat(measured), return_axis(group))]


def _parts(group: Sequence[MethodResult], colours: Mapping[str, int]) -> tuple[list[Panel], list[str]]:
    """Return a panel for each reward part, and the names of the parts that are zero for all methods."""
    parts = {line.name: line.components() for line in group}
    panels: list[Panel] = []
    empty: list[str] = []
    for name in dict.fromkeys(name for by_name in parts.values() for name in by_name):
        bars: Any = pd.concat(
            bar(
                line.name,
                colours[line.name],
                parts[line.name][name],
                [s.components[name].mean for s in line.summaries if name in s.components],
            )
            for line in group
            if name in parts[line.name]
        )
        if bars["y"].any() or any(map(any, bars["seeds"])):
            panels.append(Panel("bars", name, "mean", bars))
        else:
            empty.append(name)
    return panels, empty


# --- training ---------------------------------------------------------------------------------------------------------


def _training(group: Sequence[MethodResult], colours: Mapping[str, int]) -> tuple[list[Panel], list[Panel]]:
    """Return panels of returns and reward parts by update, and panels of the metrics of updates."""
    curves = {line.name: line.training() for line in group}
    scored = dict.fromkeys(name for line in group for summary in line.summaries for name in summary.components)
    parts = dict.fromkeys(name for by_name in curves.values() for name in by_name["parts"])
    in_order = [*(name for name in scored if name in parts), *(name for name in parts if name not in scored)]
    reported = dict.fromkeys(name for by_name in curves.values() for name in by_name["metrics"])
    known = [name for name in _DIAGNOSTICS if name in reported]

    def panel(kind: Literal["returns", "parts", "metrics"], name: str, title: str) -> Panel:
        having = [(line, curve) for line in group if (curve := curves[line.name][kind].get(name))]
        return Panel("lines", title, "updates", pd.concat(_rows_of(line, curve, colours) for line, curve in having))

    earned = any(by_name["returns"] for by_name in curves.values())
    scores = [panel("returns", "return", "training return, %")] if earned else []
    scores += [panel("parts", name, name) for name in in_order]
    updates = [panel("metrics", name, name) for name in [*known, *(name for name in reported if name not in known)]]
    return scores, [_reaching(update) for update in updates if _changes(update)]


def _reaching(panel: Panel) -> Panel:
    """Return the panel with the fixed axis range of its metric; panels of other metrics are unchanged."""
    if panel.title not in _DIAGNOSTICS:
        return panel
    top = _DIAGNOSTICS[panel.title][1]
    return replace(panel, limits=(min(0.0, *panel.values), max(top, *panel.values)))


def _changes(panel: Panel) -> bool:
    return panel.title in _DIAGNOSTICS or panel.data["y"].nunique(dropna=False) > 1


def _updates_caption(panels: Sequence[Panel]) -> str:
    meanings = [f"{p.title}: {_DIAGNOSTICS[p.title][0]}" for p in panels if p.title in _DIAGNOSTICS]
    explained = f"{'; '.join(meanings)}. Other metrics that never changed are left out. " if meanings else ""
    return f"Metrics of every update. {explained}{_BANDS}"


# --- all environments -------------------------------------------------------------------------------------------------


def over_all(methods: Sequence[Overall], colours: Mapping[str, int]) -> Figure:
    """Return the figure of performance profiles and interquartile means; intervals need three seeds."""
    thresholds = [float(t) for t in THRESHOLDS]
    profile = pd.concat(rows(m.name, colours[m.name], thresholds, *m.profile) for m in methods)
    means = pd.concat(bar(m.name, colours[m.name], m.iqm) for m in methods)
    panels = [
        Panel("lines", "share of runs above a return", "return, % of maximum", profile, (0.0, 1.0)),
        Panel("bars", "interquartile mean", "return, % of maximum", means),
    ]
    caption = (
        "Performance profile: share of runs with a return above the value on the x axis, with a 95 % score interval. "
        "Interquartile mean: mean return of the middle half of all runs, with a 95 % t interval over seeds. "
        "Definitions are from arXiv:2108.13264."
    )
    return Figure("all environments", "overall", caption, panels)
