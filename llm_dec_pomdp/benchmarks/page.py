"""The report as one HTML file that needs nothing else: pictures inline, data inline, no network."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..traces.page import policy, viewer_script, viewer_style
from ..visible import visible
from . import charts
from .charts import Series
from .episodes import browsable
from .findings import THRESHOLDS, Comparison, Findings, Overall
from .lines import Line, by_environment, return_axis
from .published import SOURCE, published
from .runs import Entry, Run
from .text_tables import HOW, Text, bounds, difference_table, overall_table, section_tables, verdict_rule

MOST = 2_000_000  # bytes of the episodes in a report
_DIAGNOSTICS = {  # of what learners report: caption, and what the axis reaches at least
    "truncated": ("Share of the texts that the token limit ended.", 1.0),
    "length": ("Tokens per text.", 1.0),
    "groups_without_signal": ("Share of the groups in which no text has an advantage.", 1.0),
    "advantage_spread": ("Standard deviation of the advantages.", 1.0),
    "surprisal": ("Mean of -log p of the sampled tokens, in nats.", 1.0),
    "sampler_gap": ("Mean difference in log p of a token between trainer and sampler.", 0.05),
    "clipped": ("Share of the ratios outside the clip range.", 1.0),
    "explained_variance": ("Share of the variance of the returns that the critics knew.", 1.0),
}


def render_page(
    title: str, runs: Sequence[Run], said: Findings, entries: Sequence[Entry], warnings: Sequence[str]
) -> str:
    """The page.

    Args:
        title: Its heading.
        runs: Where the entries are from.
        found: What its tables say.
        entries: All cells, those without a result too.
        warnings: What does not compare.
    """
    loader = PackageLoader("llm_dec_pomdp.benchmarks", "templates")
    templates = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters["number"] = _number
    templates.filters["bounds"] = bounds
    names = list(dict.fromkeys(line.name for line in said.lines))
    colours = {name: number for number, name in enumerate(names)}
    style, script = viewer_style() + _file("report.css"), viewer_script() + _file("report.js")
    held = ((line.environment, line.name, entry) for line in said.lines for entry in line.entries)
    packed, left_out = browsable(held, MOST)
    page = templates.get_template("report.html.j2").render(
        title=title,
        about=next((run.suite["about"] for run in runs if run.suite.get("about")), ""),
        warnings=warnings,
        failures=[entry for entry in entries if entry.result is None],
        headline=headline(said.lines),
        how=HOW,
        source=SOURCE,
        sections=[_section(name, group, said.on(name), colours) for name, group in by_environment(said.lines).items()],
        overall=_overall(said.overall),
        runs=[(run, _versions(run.versions)) for run in runs],
        suites=[json.dumps(run.suite or [e.cell.to_dict() for e in run.entries], indent=1) for run in runs],
        style=style,
        script=script,
        policy=policy(style, script),
        held=len(packed),
        left_out=left_out,
        traces=packed.text(),
    )
    return visible(page)


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def _versions(versions: Mapping[str, Any]) -> str:
    """What a run was made with, in one line."""
    said = {name: value for name, value in versions.items() if not isinstance(value, Mapping)}
    layers: Mapping[str, str] = versions.get("judge", {}).get("layers", {})
    shown = [f"{name} {value}" for name, value in said.items()]
    judge = [f"{name} {state}" for name, state in layers.items()]
    return "; ".join([*shown, f"judge: {', '.join(judge)}"] if judge else shown)


def _file(name: str) -> Markup:
    return Markup((files("llm_dec_pomdp.benchmarks") / "templates" / name).read_text(encoding="utf-8"))


# --- the headline table -----------------------------------------------------------------------------------------------


def headline(all_lines: Sequence[Line]) -> list[dict[str, Any]]:
    """A row per method and environment, measured, and a row per published number, marked as such."""
    body: list[dict[str, Any]] = []
    for environment, group in by_environment(all_lines).items():
        for line in group:
            body.append(
                {
                    "environment": environment,
                    "method": line.method,
                    "model": line.model,
                    "published": False,
                    "seeds": len(line.entries),
                    "value": line.value,
                    "solved": 100 * line.mean(lambda s: s.solved),
                    "distinct": line.mean(lambda s: s.distinct_2),
                    "response": line.mean(lambda s: s.latency.mean if s.latency else math.nan),
                    "batched": line.mean(lambda s: s.response_seconds),
                    "rate": line.mean(lambda s: s.tokens_per_second),
                    "prompt": line.mean(lambda s: s.prompt_tokens),
                    "generated": line.mean(lambda s: s.generated_tokens),
                    "cost": line.mean(lambda s: s.tokens_per_solved),
                }
            )
        for printed in published(group[0].entries[0].cell.environment.id):
            body.append(
                {
                    "environment": environment,
                    "method": printed.method,
                    "model": printed.models,
                    "published": True,
                    "value": printed.return_percent,
                }
            )
    return body


# --- pictures ---------------------------------------------------------------------------------------------------------


def _section(
    environment: str, group: Sequence[Line], compared: Sequence[Comparison], colours: Mapping[str, int]
) -> dict[str, Any]:
    """What the page shows of an environment."""
    mine = {line.name: colours[line.name] for line in group}
    parts = {line.name: line.components() for line in group}
    components = list(dict.fromkeys(name for by_name in parts.values() for name in by_name))
    bars = {
        name: [
            (v.mean, v.low, v.high) if (v := parts[line.name].get(name)) else (math.nan, math.nan, math.nan)
            for line in group
        ]
        for name in components
    }
    return {
        "name": environment,
        "legend": Markup(charts.legend(mine)),
        "curves": Markup(_curves(environment, group, colours)),
        "diagnostics": _diagnostics(environment, group, colours),
        "components": Markup(
            charts.bar_chart(bars, mine, title=f"{environment}: reward parts", x_label="mean reward part")
        ),
        "speed": Markup(_speed(environment, group, colours)),
        "tables": _tables(group, compared),
    }


def _tables(group: Sequence[Line], compared: Sequence[Comparison]) -> list[tuple[str, str, Text]]:
    """Title, note and table: what the sections of the report show, and how methods differ."""
    tables = [(section.title, section.note, table) for section, table in section_tables(group)]
    differences = [("Differences, in points", verdict_rule(compared), difference_table(compared))] if compared else []
    return differences + tables


def _curves(environment: str, group: Sequence[Line], colours: Mapping[str, int]) -> str:
    """Return on the test rows while training, and as dashed lines what does not learn."""
    trained = [(line, line.curve()) for line in group]
    curves = [curve for _, curve in trained if curve is not None]
    if not curves:
        return ""
    longest = max(curve.episodes[-1] for curve in curves)
    series = [
        Series(line.name, [0.0, longest], [line.value.mean] * 2, dashed=True, colour=colours[line.name])
        if curve is None
        else Series(line.name, curve.episodes, curve.mean, curve.low, curve.high, colour=colours[line.name])
        for line, curve in trained
    ]
    labels = {"x_label": "training episodes", "y_label": "test return, %"}
    title = f"{environment}: test return while training"
    return charts.line_chart(series, title=title, **labels, y_range=return_axis(group))


def _diagnostics(environment: str, group: Sequence[Line], colours: Mapping[str, int]) -> list[tuple[str, Markup]]:
    """Captions and pictures of what learners report of their updates, as far as any of them does."""
    pictures: list[tuple[str, Markup]] = []
    for name, (caption, top) in _DIAGNOSTICS.items():
        reported = [(line, line.metric(name)) for line in group]
        series = [
            Series(line.name, list(map(float, by_step)), list(by_step.values()), colour=colours[line.name])
            for line, by_step in reported
            if by_step
        ]
        if series:
            values = [value for line in series for value in line.y]
            labels = {"title": f"{environment}: {name}", "x_label": "updates", "y_label": ""}
            picture = charts.line_chart(series, **labels, y_range=(min(0.0, *values), max(top, *values)))
            pictures.append((caption, Markup(picture)))
    return pictures


def _speed(environment: str, group: Sequence[Line], colours: Mapping[str, int]) -> str:
    """Return against response time: one task at a time where that was measured, else in batches."""
    alone = all(summary.latency is not None for line in group for summary in line.summaries)
    series: list[Series] = []
    for line in group:
        seconds = line.mean(lambda s: s.latency.mean if alone and s.latency else s.response_seconds)
        v = line.value
        low, high = ([v.low], [v.high]) if math.isfinite(v.low) else ([], [])
        series.append(Series(line.name, [seconds], [v.mean], low, high, colour=colours[line.name]))
    how = "one task at a time" if alone else "in batches"
    return charts.scatter(
        [s for s in series if math.isfinite(s.x[0]) and math.isfinite(s.y[0])],
        title=f"{environment}: speed against quality",
        x_label=f"seconds to a joint answer, {how}",
        y_label="return, % of maximum",
    )


def _overall(methods: Sequence[Overall]) -> dict[str, Any] | None:
    """Performance profile, interquartile mean and probability of improvement; below three seeds without intervals."""
    if not methods:
        return None
    colours = {method.name: number for number, method in enumerate(methods)}
    thresholds = [float(t) for t in THRESHOLDS]
    series: list[Series] = []
    for m in methods:
        middle, low, high = ([float(v) for v in column if math.isfinite(v)] for column in m.profile)
        series.append(Series(m.name, thresholds, middle, low, high, colour=colours[m.name]))
    profile = charts.line_chart(
        series,
        title="performance profile",
        x_label="return, % of maximum",
        y_label="share of runs above it",
        y_range=(0.0, 1.0),
    )
    bars = {"interquartile mean": [(m.iqm.mean, m.iqm.low, m.iqm.high) for m in methods]}
    means = charts.bar_chart(bars, colours, title="interquartile mean", x_label="return, % of maximum")
    return {
        "table": overall_table(methods),
        "legend": Markup(charts.legend(colours)),
        "profile": Markup(profile),
        "means": Markup(means),
    }
