"""The command `runs`: list runs that were made."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ..visible import plain
from .console import out, print_json, usage
from .options import Json


def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of runs, or of one run.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List runs: running, interrupted, failed (and why) or done, how far they are, and what they earn.

    The return, in % of the maximum, is that of the newest training step, or of the evaluation once a run is measured.

    Example: [bold]llm-dec-pomdp runs runs[/]
    """
    from ..benchmarks.listing import list_runs

    with usage():
        listed = list_runs(folder)
    if as_json:
        print_json([dataclasses.asdict(run) for run in listed])
        return
    table = Table()
    for header in ("run", "status", "step", "return %", "age"):
        table.add_column(header, overflow="fold")
    table.add_column("reason", overflow="ellipsis", no_wrap=True)  # --json has all of it
    for run in listed:
        reason = run.reason.partition("\n")[0]
        row = (run.name, run.status, run.step_text, run.return_text, run.age_text, reason)
        table.add_row(*map(plain, row))
    out.print(table)
