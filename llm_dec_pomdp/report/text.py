"""Results for people: tables for the terminal, and `report.md` and `report.html` for the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pandas import DataFrame
from rich.table import Table

from ..benchmarks.result import Result
from ..results.lines import Line, by_environment, short
from ..results.runs import Entry, Run, RunError, merge, read_run
from ..storage.files import replace
from ..storage.reading import FileError, is_there
from ..types import grouped
from ..visible import plain, visible
from . import markdown as md
from .drawing import save
from .figures import learning_curves
from .findings import Findings, findings
from .page import render_page
from .published import SOURCE, published
from .tables import (
    HOW,
    OWN_UNIT,
    bounds,
    difference_table,
    frame,
    number,
    overall_table,
    return_table,
    section_tables,
    verdict_rule,
)

IN_PERCENT = ("return %", "95 % over tasks")
REST = ("distinct-2", "tokens/s", "response s")


# --- the terminal -----------------------------------------------------------------------------------------------------


def rows(results: Sequence[Result], methods: Sequence[str] = ()) -> DataFrame:
    """One row of text per result of an environment: who, the measures, the reward parts.

    `methods` are what the results are called; left out: the titles of their methods.
    """
    varying, measures = _varying(results), _measures(results)
    cells: list[list[str]] = []
    for result, method in zip(results, methods or [r.cell.method.title for r in results], strict=True):
        s = result.summary
        earned = [number(s.return_percent.mean), bounds(s.return_percent)]
        if measures[0] in OWN_UNIT:  # whose intervals are in the section of regrets
            earned = [number(s.measured["regret"][name].mean, 2) for name in OWN_UNIT]
        identity = {"model": short(result.cell.model.name), "seed": str(result.cell.seed)}
        cells.append(
            [
                method,
                *(identity[name] for name in varying),
                *earned,
                number(s.distinct_2, 3),
                number(s.tokens_per_second, 0),
                number(s.response_seconds, 2),
                *(number(value.mean, 2) for value in s.components.values()),
            ]
        )
    return frame(["method", *varying, *measures, *results[0].summary.components], cells)


def _measures(results: Sequence[Result]) -> tuple[str, ...]:
    """The columns between who played and the reward parts."""
    known = all("regret" in result.summary.measured for result in results)
    return (*(OWN_UNIT if known else IN_PERCENT), *REST)


def _varying(results: Sequence[Result]) -> list[str]:
    identities = {"model": {r.cell.model.name for r in results}, "seed": {r.cell.seed for r in results}}
    return [name for name, values in identities.items() if len(values) > 1]


def tables(results: Sequence[Result], entries: Sequence[Entry] = ()) -> list[Table]:
    """Rich tables, narrow enough for a terminal: per environment measures and reward parts; then what failed."""
    made: list[Table] = []
    for environment, group in grouped(results, lambda result: result.cell.environment.title).items():
        table, who = rows(group), 1 + len(_varying(group))
        parts = who + len(_measures(group))
        made.append(_table(_title(environment, group), table.iloc[:, :parts], who))
        names, body = list(table.columns), [list(row) for row in table.to_numpy()]
        earned = frame(names[:who] + names[parts:], [row[:who] + row[parts:] for row in body])
        made.append(_table(f"{environment}: mean reward parts", earned, who))
    said = findings(entries)
    if any(len(line.entries) > 1 for line in said.lines):
        made += finding_tables(said)
    else:
        made += [table for group in by_environment(said.lines).values() for table in _section_tables(group)]
    if len(failed := _failed(entries)):
        made.append(_table("Cells without a result", failed, 2))
    return made


def _failed(entries: Sequence[Entry]) -> DataFrame:
    return frame(["cell", "reason"], ([e.cell.label, e.failure] for e in entries if e.result is None))


def finding_tables(said: Findings) -> list[Table]:
    """Rich tables: per environment what each method earns over its seeds, and every pair of methods."""
    made: list[Table] = []
    for environment, group in by_environment(said.lines).items():
        made.append(_table(f"{environment}: return of the methods", return_table(group), 1))
        made += _section_tables(group)
        if compared := said.on(environment):
            title = f"{environment}: differences in return, in points. {verdict_rule(compared)}"
            made.append(_table(title, difference_table(compared), 2))
    return made


def _section_tables(group: Sequence[Line]) -> list[Table]:
    """Rich tables of the sections of an environment."""
    made = section_tables(group)
    return [_table(f"{group[0].environment}: {section.title}. {section.note}", table, 1) for section, table in made]


def _table(title: str, texts: DataFrame, left: int) -> Table:
    table = Table(title=plain(title, "table.title"), title_justify="left")
    for position, name in enumerate(texts.columns):
        table.add_column(plain(name), justify="left" if position < left else "right")
    for row in texts.to_numpy():
        table.add_row(*map(plain, row))
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
    write_merged(folder, run.title, [run], findings(run.entries), run.entries, [])


def write_merged(
    folder: Path, title: str, runs: Sequence[Run], said: Findings, entries: Sequence[Entry], warnings: Sequence[str]
) -> None:
    """Write the report of one run or of several into a folder; see `render_page` for the other arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(title, said, entries, warnings)
    if curves := learning_curves(said):
        save(curves, folder / "curves.png")
        text += "\n## Test return while training\n\n![learning curves](curves.png)\n"
    replace(folder / "report.md", text.encode())
    replace(folder / "report.html", render_page(title, runs, said, entries, warnings).encode())


def report_runs(folders: Sequence[Path], out: Path, *, allow_mixed: bool = False) -> tuple[Findings, list[str]]:
    """Report several runs together; returns the findings, and warnings, also of runs that cannot be read.

    Raises:
        RunError, FileError: No run can be read, or they do not compare and `allow_mixed` is False.
    """
    runs, left_out = _readable(folders)
    entries, warnings = merge(runs, allow_mixed=allow_mixed)
    warnings += left_out
    said = findings(entries)
    write_merged(out, " + ".join(dict.fromkeys(run.title for run in runs)), runs, said, entries, warnings)
    return said, warnings


def _readable(folders: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """The runs that can be read, and a sentence for each that is damaged."""
    runs: list[Run] = []
    errors: list[ValueError] = []
    for folder in folders:
        try:
            run = read_run(folder)
            for entry in run.entries if len(folders) > 1 else ():
                for read in (entry.episodes, entry.curve, entry.training):  # all, so as to leave out all
                    read()
        except (RunError, FileError) as error:
            if not is_there(folder / "versions.json"):  # it is no run, but a wrong name
                raise
            errors.append(error)
        else:
            runs.append(run)
    if not runs:
        raise errors[0]
    return runs, [f"a run is left out ({error})" for error in errors]


def markdown(title: str, said: Findings, entries: Sequence[Entry], warnings: Sequence[str]) -> str:
    """The report as Markdown."""
    parts = [f"# {md.inline(title)}", "", *(f"**Does not compare:** {md.inline(w)}." for w in warnings), ""]
    if said.lines:
        parts += [HOW, ""]
    for environment, group in by_environment(said.lines).items():
        finished = [(line.method, e.result) for line in group for e in line.entries if e.result is not None]
        results = [result for _, result in finished]
        measured = rows(results, [method for method, _ in finished])
        parts += [f"## {md.inline(_title(environment, results))}", "", *md.table(measured)]
        parts += _published_lines(group)
        parts += md.table(return_table(group)) if any(len(line.entries) > 1 for line in group) else []
        for section, table in section_tables(group):
            parts += [f"### {section.title}", "", *([section.note, ""] if section.note else []), *md.table(table)]
        if compared := said.on(environment):
            parts += ["### Differences, in points", "", verdict_rule(compared), ""]
            parts += md.table(difference_table(compared))
    if said.overall:
        parts += ["## Over all environments", "", *md.table(overall_table(said.overall))]
    if len(failed := _failed(entries)):
        parts += ["## Cells without a result", "", *md.table(failed)]
    parts += ["## One episode per method", ""]
    for line in said.lines:
        parts += _sample(line.entries[0])
    return visible("\n".join(parts)) + "\n"


def _published_lines(group: Sequence[Line]) -> list[str]:
    printed = published(entry.cell.environment for line in group for entry in line.entries)
    said = ", ".join(f"{p.method} {p.return_percent} % ({p.models})" for p in printed)
    return [f"Published ({SOURCE}, other models, not measured here): {said}.", ""] if printed else []


def _sample(entry: Entry) -> list[str]:
    """The texts of the first episode of a cell, turn by turn."""
    episodes = entry.episodes()
    if not episodes:
        return []
    episode = episodes[0]
    score = f"{episode.final.total:.2f}" if episode.final else "none"
    parts = [f"### {entry.cell.label}: {md.inline(episode.item_id)}, score {score}", ""]
    for place, turn in enumerate(episode.turns, 1):
        when = f", turn {place}" if len(episode.turns) > 1 else ""
        for agent, said in turn.actions.items():
            parts += [f"**{md.inline(entry.shown(agent))}**{when}:", "", *md.block(said.text)]
    return parts
