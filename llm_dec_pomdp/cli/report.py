"""The command `report`, which writes the report of one or several benchmarks or runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..printable import plain
from .console import err, failure, out, print_json, show_report, stop
from .options import Json


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders that bench, train or eval has written.")
    ],
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the report. Default for a single RUN: RUN.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also write figures as SVG and PDF, tables as CSV and LaTeX, and scores for rliable and marl-eval.",
        ),
    ] = None,
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Merge runs that are not comparable, with a warning.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write report.html and report.md for one RUN, or for several together, with tests of the differences.

    Examples: [bold]llm-dec-pomdp report runs/quick-20260101-120000[/]
              [bold]llm-dec-pomdp report runs/mine runs/theirs --out compared[/]
              [bold]llm-dec-pomdp report runs/mine --export paper/appendix[/]
    """
    from ..report.paper import write_appendix
    from ..report.terminal import summary
    from ..report.text import report_runs

    if out_folder is None and len(runs) > 1:
        stop("--out is missing; give a folder for the report of several runs")
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
        err.print(plain("not comparable:", "yellow"), warning)
    if left_out:
        err.print(
            "left out of rliable.json and marl_eval.json, without all environments or seeds:", ", ".join(left_out)
        )
    show_report(summary(found, (), out.width), folder)
