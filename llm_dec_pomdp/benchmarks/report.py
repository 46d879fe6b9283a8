"""Results for people: tables for the terminal, and `report.md` and `report.html` for the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from ..storage import replace
from .aggregate import Difference
from .cell import Result
from .compare import (
    Line,
    at_k_table,
    by_environment,
    interval,
    lines,
    number,
    over_environments,
    pairs,
    scheme_table,
    short,
    verdict,
)
from .page import render_page
from .picture import draw_curves
from .published import SOURCE, published
from .runs import Entry, Run, final_score, merge, read_run

_DIFFERENCE = ("environment", "method", "against", "points", "95 % interval", "verdict")
MEASURES = ("return %", "95 % interval", "distinct-2", "tokens/s", "response s")


# --- the terminal -----------------------------------------------------------------------------------------------------


def rows(results: Sequence[Result], methods: Sequence[str] = ()) -> tuple[list[str], list[list[str]]]:
    """Column names and one row of text per result of an environment: who, the measures, the reward parts.

    Args:
        results: Of one environment.
        methods: Their names; those of their methods when left out.
    """
    varying = _varying(results)
    found: list[list[str]] = []
    for result, method in zip(results, methods or [r.cell.method.title for r in results], strict=True):
        s = result.summary
        r = s.return_percent
        identity = {"model": short(result.cell.model.name), "seed": str(result.cell.seed)}
        found.append(
            [
                method,
                *(identity[name] for name in varying),
                number(r.mean),
                interval(r),
                number(s.distinct_2, 3),
                number(s.tokens_per_second, 0),
                number(s.response_seconds, 2),
                *(number(value.mean, 2) for value in s.components.values()),
            ]
        )
    return ["method", *varying, *MEASURES, *results[0].summary.components], found


def _varying(results: Sequence[Result]) -> list[str]:
    models, seeds = {r.cell.model.name for r in results}, {r.cell.seed for r in results}
    return [name for name, values in (("model", models), ("seed", seeds)) if len(values) > 1]


def tables(results: Sequence[Result], entries: Sequence[Entry] = ()) -> list[Table]:
    """Rich tables, narrow enough for a terminal: per environment the measures and the reward parts; what failed."""
    made: list[Table] = []
    grouped: dict[str, list[Result]] = {}
    for result in results:
        grouped.setdefault(result.cell.environment.title, []).append(result)
    for environment, group in grouped.items():
        names, found = rows(group)
        who = 1 + len(_varying(group))
        parts = who + len(MEASURES)
        made.append(_table(_title(environment, group), names[:parts], [row[:parts] for row in found], who))
        chosen = [*range(who), *range(parts, len(names))]
        picked = [[row[i] for i in chosen] for row in found]
        made.append(_table(f"{environment}: mean reward parts", [names[i] for i in chosen], picked, who))
    failed = [[entry.cell.label, entry.failure] for entry in entries if entry.result is None]
    if failed:
        made.append(_table("Cells without a result", ["cell", "reason"], failed, 2))
    return made


def comparison_table(found: Sequence[Line]) -> Table:
    """Every pair of methods, with its difference and whether that is within noise."""
    body = [_difference(*pair) for pair in pairs(found)]
    return _table("Differences in return, paired over tasks and seeds", _DIFFERENCE, body, 3)


def _difference(a: Line, b: Line, found: Difference) -> list[str]:
    """The cells of `_DIFFERENCE`; the bounds have signs, so a word stands between them."""
    points = found.points
    bounds = f"{points.low:+.1f} to {points.high:+.1f}"
    return [a.environment, a.name, b.name, f"{points.mean:+.1f}", bounds, verdict(found)]


def _table(title: str, names: Sequence[str], body: Sequence[Sequence[str]], left: int) -> Table:
    from rich.markup import escape

    table = Table(title=title, title_justify="left")
    for position, name in enumerate(names):
        table.add_column(name, justify="left" if position < left else "right")
    for row in body:
        table.add_row(*map(escape, row))
    return table


def _title(environment: str, group: Sequence[Result]) -> str:
    summary = group[0].summary
    unscored = sum(result.summary.unscored for result in group)
    lost = f", {unscored} episodes could not be scored and are left out" if unscored else ""
    models = ", ".join(dict.fromkeys(short(result.cell.model.name) for result in group))
    split = group[0].cell.evaluation.split
    tasks = "all rows" if split == "all" else f"the {split} rows"
    return f"{environment}, {models}: {summary.episodes} episodes per method on {tasks}{lost}"


# --- files ------------------------------------------------------------------------------------------------------------


def write_report(folder: Path) -> None:
    """Write `report.md`, `report.html` and, where something was trained, `curves.png` of a run into its folder."""
    run = read_run(folder)
    write_merged(folder, run.title, [run], run.entries, [])


def write_merged(
    folder: Path, title: str, runs: Sequence[Run], entries: Sequence[Entry], warnings: Sequence[str]
) -> None:
    """Write the report of one run or of several.

    Args:
        folder: Where.
        title: Its heading.
        runs: Where the entries are from.
        entries: What is reported.
        warnings: What does not compare and is reported all the same.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = lines(entries)
    text = markdown(title, found, entries, warnings)
    if draw_curves(folder / "curves.png", found):
        text += "\n## Test return while training\n\n![learning curves](curves.png)\n"
    replace(folder / "report.md", text.encode())
    replace(folder / "report.html", render_page(title, runs, found, entries, warnings).encode())


def report_runs(folders: Sequence[Path], out: Path, *, allow_mixed: bool = False) -> tuple[list[Line], list[str]]:
    """Report several runs together.

    Raises:
        RunError: A folder is no run, or they do not compare and `allow_mixed` is False.
    """
    runs = [read_run(folder) for folder in folders]
    entries, warnings = merge(runs, allow_mixed=allow_mixed)
    write_merged(out, " + ".join(dict.fromkeys(run.title for run in runs)), runs, entries, warnings)
    return lines(entries), warnings


def markdown(title: str, found: Sequence[Line], entries: Sequence[Entry], warnings: Sequence[str]) -> str:
    """The report as Markdown."""
    parts = [f"# {title}", "", *(f"**Does not compare:** {warning}." for warning in warnings), ""]
    for environment, group in by_environment(found).items():
        finished = [(line.method, e.result) for line in group for e in line.entries if e.result is not None]
        results = [result for _, result in finished]
        names, body = rows(results, [method for method, _ in finished])
        parts += [f"## {_title(environment, results)}", "", *_markdown_table(names, body), ""]
        parts += _published_lines(group)
        parts += _at_k_lines(group) + _scheme_lines(group)
    compared = [[*_difference(a, b, d), f"{d.seeds} x {d.tasks}"] for a, b, d in pairs(found)]
    if compared:
        names = [*_DIFFERENCE, "seeds x tasks"]
        parts += ["## Differences, paired over tasks and seeds", "", *_markdown_table(names, compared), ""]
    parts += _overall_lines(found)
    failed = [[entry.cell.label, entry.failure.replace("\n", " ")] for entry in entries if entry.result is None]
    if failed:
        parts += ["## Cells without a result", "", *_markdown_table(["cell", "reason"], failed), ""]
    parts += ["## One episode per method", ""]
    for line in found:
        parts += _sample(line.entries[0])
    return "\n".join(parts) + "\n"


def _published_lines(group: Sequence[Line]) -> list[str]:
    printed = published(group[0].entries[0].cell.environment.id)
    said = ", ".join(f"{p.method} {p.return_percent} % ({p.models})" for p in printed)
    return [f"Published ({SOURCE}, other models, not measured here): {said}.", ""] if printed else []


def _at_k_lines(group: Sequence[Line]) -> list[str]:
    table = at_k_table(group)
    return [*_markdown_table(*table), ""] if table else []


def _scheme_lines(group: Sequence[Line]) -> list[str]:
    table = scheme_table(group)
    return [*_markdown_table(*table), ""] if table else []


def _overall_lines(found: Sequence[Line]) -> list[str]:
    methods = over_environments(found)
    if not methods:
        return []
    body = [
        [
            m.name,
            number(m.iqm.mean),
            interval(m.iqm),
            *(number(m.improvement[o.name].mean, 2) if o is not m else "" for o in methods),
        ]
        for m in methods
    ]
    names = ["method", "interquartile mean", "95 % interval", *(f"P(more than {m.name})" for m in methods)]
    return ["## Over all environments", "", *_markdown_table(names, body), ""]


def _markdown_table(names: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in [names, ["---"] * len(names), *body]]
    return ["| " + " | ".join(row) + " |" for row in escaped]


def _sample(entry: Entry) -> list[str]:
    """The texts of the first episode of a cell."""
    episodes = entry.episodes()
    if not episodes:
        return []
    last: dict[str, Any] = episodes[0]["turns"][-1]
    title = f"### {entry.cell.label}: {episodes[0]['task']}, score {final_score(episodes[0]):.2f}"
    parts = [title, ""]
    for agent, text in last["actions"].items():
        parts += [f"{agent}:", "", "~~~text", text.replace("~~~", "~ ~ ~"), "~~~", ""]
    return parts
