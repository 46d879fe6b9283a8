"""The report as one HTML file that contains all pictures and data and needs no network."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from ..printable import escape_controls
from ..results.lines import MethodResult, by_environment
from ..results.runs import CellRecord, Run
from .before_after import RULE, before_and_after
from .drawing import COLOURS, inline
from .figures import Figure, figures, learning_curves
from .findings import Findings
from .published import SOURCE
from .tables import (
    INTERVALS,
    TEXT_COLUMNS,
    about_cells,
    cost_table,
    environment_blocks,
    headline_table,
    number,
    overall_table,
)
from .viewer.page import policy, viewer_script, viewer_style
from .viewer.stored import browsable

MOST = 2_000_000  # maximum size of the episodes in a report, in bytes


def render_page(
    title: str, runs: Sequence[Run], found: Findings, entries: Sequence[CellRecord], warnings: Sequence[str]
) -> str:
    """Return the page as HTML.

    Args:
        title: Heading of the page.
        runs: The benchmarks or runs that contain the entries.
        found: The findings to show.
        entries: All runs, including those without a result.
        warnings: Reasons why results are not comparable.
    """
    pictures, curves = figures(found), learning_curves(found)
    style, script = viewer_style() + file_of_page("report.css"), viewer_script() + file_of_page("report.js")
    stored = ((line.environment, line.name, entry) for line in found.lines for entry in line.entries)
    packed, left_out = browsable(stored, MOST)
    environments = by_environment(found.lines).items()
    page = template("report.html.j2").render(
        title=title,
        about=next((run.suite["about"] for run in runs if run.suite.get("about")), ""),
        warnings=warnings,
        headlines=found.headlines(),
        curves=figure_values(curves) if curves else None,
        failures=[entry for entry in entries if entry.result is None],
        headline=headline_table(found.lines),
        costs=cost_table(found.lines),
        intervals=INTERVALS,
        rule=RULE,
        words=TEXT_COLUMNS,
        source=SOURCE,
        sections=[_section(name, group, found, pictures) for name, group in environments],
        overall=overall_table(found.overall) if found.overall else None,
        overall_figure=figure_values(pictures[0]) if found.overall else None,
        runs=[(run, _versions(run.versions)) for run in runs],
        suites=[json.dumps(run.suite or [e.cell.to_dict() for e in run.entries], indent=1) for run in runs],
        style=style,
        script=script,
        policy=policy(style, script),
        count=len(packed),
        left_out=left_out,
        traces=packed.text(),
    )
    return escape_controls(page)


@functools.cache
def template(name: str) -> Template:
    """Return a template of a page, compiled once."""
    loader = PackageLoader("llm_dec_pomdp.report", "templates")
    templates = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters["number"] = _score
    return templates.get_template(name)


def _score(value: float | None) -> str:
    return "-" if value is None else number(value, 2)


def _versions(versions: Mapping[str, Any]) -> str:
    """Return the versions of a run in one line."""
    listed = [f"{name} {value}" for name, value in versions.items() if not isinstance(value, Mapping)]
    layers: Mapping[str, str] = versions.get("judge", {}).get("layers", {})
    judge = ", ".join(f"{name} {state}" for name, state in layers.items())
    return "; ".join([*listed, f"sandbox: {judge}"] if judge else listed)


def file_of_page(name: str) -> Markup:
    """Return the text of a style sheet or script of the pages."""
    return Markup((files("llm_dec_pomdp.report") / "templates" / name).read_text(encoding="utf-8"))


def _section(
    environment: str, group: Sequence[MethodResult], found: Findings, pictures: Sequence[Figure]
) -> dict[str, Any]:
    """Return the values for the section of an environment in the template."""
    return {
        "name": environment,
        "about": about_cells(group),
        "figures": [figure_values(figure) for figure in pictures if figure.about == environment],
        "examples": [example for line in group if (example := before_and_after(line))],
        "blocks": environment_blocks(group, found.on(environment)),
    }


def figure_values(figure: Figure) -> dict[str, Any]:
    """Return the values for a figure in the template."""
    panels = [Markup(inline(panel, figure.about)) for panel in figure.panels]
    legend = {name: colour % len(COLOURS) for name, colour in figure.legend.items()}
    return {
        "name": figure.name,
        "panels": panels,
        "legend": legend,
        "caption": figure.caption,
    }
