"""The report as one HTML file with pictures and data inside, which needs no network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..results.lines import Line, by_environment
from ..results.runs import Entry, Run
from ..visible import visible
from .before_after import RULE, before_and_after
from .drawing import COLOURS, inline
from .figures import Figure, figures
from .findings import Findings
from .published import SOURCE
from .tables import HOW, TEXT_COLUMNS, cost_table, environment_tables, headline_table, number, overall_table
from .viewer.page import policy, viewer_script, viewer_style
from .viewer.stored import browsable

MOST = 2_000_000  # bytes of the episodes in a report


def render_page(
    title: str, runs: Sequence[Run], said: Findings, entries: Sequence[Entry], warnings: Sequence[str]
) -> str:
    """The page.

    Args:
        title: Its heading.
        runs: Where the entries are from.
        said: The findings that its tables show.
        entries: All cells, also those without a result.
        warnings: What does not compare.
    """
    loader = PackageLoader("llm_dec_pomdp.report", "templates")
    templates = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters["number"] = _score
    drawn = figures(said)
    style, script = viewer_style() + _file("report.css"), viewer_script() + _file("report.js")
    held = ((line.environment, line.name, entry) for line in said.lines for entry in line.entries)
    packed, left_out = browsable(held, MOST)
    page = templates.get_template("report.html.j2").render(
        title=title,
        about=next((run.suite["about"] for run in runs if run.suite.get("about")), ""),
        warnings=warnings,
        failures=[entry for entry in entries if entry.result is None],
        headline=headline_table(said.lines),
        costs=cost_table(said.lines),
        how=HOW,
        rule=RULE,
        words=TEXT_COLUMNS,
        source=SOURCE,
        sections=[_section(name, group, said, drawn) for name, group in by_environment(said.lines).items()],
        overall=overall_table(said.overall) if said.overall else None,
        overall_figure=_drawn(drawn[0]) if said.overall else None,
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


def _score(value: float | None) -> str:
    return "-" if value is None else number(value, 2)


def _versions(versions: Mapping[str, Any]) -> str:
    """What a run was made with, in one line."""
    said = {name: value for name, value in versions.items() if not isinstance(value, Mapping)}
    layers: Mapping[str, str] = versions.get("judge", {}).get("layers", {})
    shown = [f"{name} {value}" for name, value in said.items()]
    judge = [f"{name} {state}" for name, state in layers.items()]
    return "; ".join([*shown, f"judge: {', '.join(judge)}"] if judge else shown)


def _file(name: str) -> Markup:
    return Markup((files("llm_dec_pomdp.report") / "templates" / name).read_text(encoding="utf-8"))


def _section(environment: str, group: Sequence[Line], said: Findings, drawn: Sequence[Figure]) -> dict[str, Any]:
    """What the page shows of an environment."""
    return {
        "name": environment,
        "figures": [_drawn(figure) for figure in drawn if figure.about == environment],
        "examples": [example for line in group if (example := before_and_after(line))],
        "tables": environment_tables(group, said.on(environment)),
    }


def _drawn(figure: Figure) -> dict[str, Any]:
    """A figure as HTML."""
    panels = [Markup(inline(panel, figure.about)) for panel in figure.panels]
    legend = {name: colour % len(COLOURS) for name, colour in figure.legend.items()}
    return {"panels": panels, "legend": legend, "caption": figure.caption, "folded": figure.folded}
