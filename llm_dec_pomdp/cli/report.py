"""The command `report`: look at runs again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..printable import plain
from .console import err, failure, out, print_json, show_report, stop
from .options import Json


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    out_folder: Annotated[Path | None, typer.Option("--out", help="Where it goes; the folder of a single run.")] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write figures as SVG and PDF, tables as CSV and LaTeX, scores for rliable and marl-eval.",
        ),
    ] = None,
    allow_mixed: Annotated[bool, typer.Option("--allow-mixed", help="Report what does not compare too.")] = False,
    as_json: Json = False,
) -> None:
    """Write report.html and report.md again, or for several runs together; say which differences are more than chance.

    Examples: [bold]llm-dec-pomdp report runs/quick-20260101-120000[/]
              [bold]llm-dec-pomdp report runs/mine runs/theirs --out compared[/]
              [bold]llm-dec-pomdp report runs/mine --export paper/appendix[/]
    """
    from ..report.paper import write_appendix
    from ..report.terminal import summary
    from ..report.text import report_runs

    if out_folder is None and len(runs) > 1:
        stop("give a folder for the report of several runs with --out")
    folder = out_folder or runs[0]
    with failure(folder):
        found, warnings = report_runs(runs, folder, allow_mixed=allow_mixed)
    left_out: list[str] = []
    if export is not None:
        with failure(export):
            left_out = write_appendix(export, found)
    if as_json:
        print_json({"folder": str(folder), "warnings": warnings, **found.to_dict()})
        return
    for warning in warnings:
        err.print(plain("does not compare:", "yellow"), warning)
    if left_out:
        err.print("not in rliable.json and marl_eval.json, for lack of an environment or a seed:", ", ".join(left_out))
    show_report(summary(found, (), out.width), folder)
