"""The files of a report: `report.md`, `report.html` and `curves.png` of a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..printable import escape_controls
from ..results.lines import MethodResult, by_environment
from ..results.runs import CellRecord, Run, RunError, merge, read_run
from ..storage.files import replace
from ..storage.reading import FileError, is_there
from . import markdown as md
from .drawing import save
from .figures import learning_curves
from .findings import Findings, findings
from .page import render_page
from .published import SOURCE, published
from .tables import INTERVALS, about_cells, environment_blocks, failure_table, overall_table, return_table


def write_report(folder: Path) -> None:
    """Write `report.md`, `report.html` and, if something was trained, `curves.png` into the folder of a run."""
    run = read_run(folder)
    write_merged(folder, run.title, [run], findings(run.entries), run.entries, [])


def write_merged(
    folder: Path,
    title: str,
    runs: Sequence[Run],
    found: Findings,
    entries: Sequence[CellRecord],
    warnings: Sequence[str],
) -> None:
    """Write the report of one or several runs into a folder; `render_page` describes the other arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    curves = learning_curves(found)
    if curves:
        save(curves, folder / "curves.png")
    replace(folder / "report.md", markdown(title, found, entries, warnings, curves=curves is not None).encode())
    replace(folder / "report.html", render_page(title, runs, found, entries, warnings).encode())


def report_runs(folders: Sequence[Path], out: Path, *, allow_mixed: bool = False) -> tuple[Findings, list[str]]:
    """Write one report for several runs.

    Returns:
        The findings, and warnings about runs that are not comparable or cannot be read.

    Raises:
        RunError, FileError: No run can be read, or the runs are not comparable and `allow_mixed` is False.
    """
    runs, left_out = _readable(folders)
    entries, warnings = merge(runs, allow_mixed=allow_mixed)
    warnings += left_out
    found = findings(entries)
    write_merged(out, " + ".join(dict.fromkeys(run.title for run in runs)), runs, found, entries, warnings)
    return found, warnings


def _readable(folders: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Return the runs that can be read, and a warning for each damaged one."""
    runs: list[Run] = []
    errors: list[ValueError] = []
    for folder in folders:
        try:
            run = read_run(folder)
            for entry in run.entries if len(folders) > 1 else ():
                for load in (entry.episodes, entry.curve, entry.training):  # a run with a damaged file is left out
                    load()
        except (RunError, FileError) as error:
            if not is_there(folder / "versions.json"):  # a wrong name, not a damaged run
                raise
            errors.append(error)
        else:
            runs.append(run)
    if not runs:
        raise errors[0]
    return runs, [f"a run is left out ({error})" for error in errors]


def markdown(
    title: str, found: Findings, entries: Sequence[CellRecord], warnings: Sequence[str], *, curves: bool = False
) -> str:
    """Return the report as Markdown; with `curves` it refers to the picture `curves.png` in the same folder."""
    parts = [f"# {md.inline(title)}", "", *(f"**Not comparable:** {md.inline(w)}." for w in warnings), ""]
    parts += [f"- {md.inline(sentence)}." for sentence in found.headlines()]
    parts += ["", "![Test return during training](curves.png)", ""] if curves else [""]
    for environment, group in by_environment(found.lines).items():
        parts += [f"## {md.inline(environment)}", "", md.inline(about_cells(group)), "", *md.table(return_table(group))]
        parts += _published_lines(group)
        for block in environment_blocks(group, found.on(environment)):
            parts += [f"### {block.title}", "", *([block.note, ""] if block.note and not block.line else [])]
            parts += [md.inline(block.line), ""] if block.line else md.table(block.table)
    if found.overall:
        parts += ["## Over all environments", "", *md.table(overall_table(found.overall))]
    failed = failure_table(entries)
    parts += ["## Runs without a result", "", *md.table(failed)] if len(failed) else []
    parts += ["## One episode per method", ""]
    for line in found.lines:
        parts += _sample(line.entries[0])
    parts += ["## Intervals", "", INTERVALS]
    return escape_controls("\n".join(parts)) + "\n"


def _published_lines(group: Sequence[MethodResult]) -> list[str]:
    quoted = published(entry.cell.environment for line in group for entry in line.entries)
    returns = ", ".join(f"{p.method} {p.return_percent} % ({p.models})" for p in quoted)
    return [f"Published ({SOURCE}, other models, not measured here): {returns}.", ""] if quoted else []


def _sample(entry: CellRecord) -> list[str]:
    """Return the texts of the first episode of a run, turn by turn, as Markdown."""
    episodes = entry.episodes()
    if not episodes:
        return []
    episode = episodes[0]
    score = f"{episode.final.total:.2f}" if episode.final else "none"
    parts = [f"### {entry.cell.label}: {md.inline(episode.item_id)}, score {score}", ""]
    for place, turn in enumerate(episode.turns, 1):
        when = f", turn {place}" if len(episode.turns) > 1 else ""
        for agent, action in turn.actions.items():
            parts += [f"**{md.inline(entry.shown(agent))}**{when}:", "", *md.block(action.text)]
    return parts
