"""The command `runs`: list runs that were made."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from ..printable import plain
from .console import out, print_json, usage
from .options import Json


def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of runs, or of one run.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List runs: running, interrupted, failed (and why) or done, how far they are, and what they earn.

    The return is that of the newest training step, or of the evaluation once a run is measured: in % of the maximum, or
    in the unit of a game whose optimum is known. A benchmark shows how many of its cells are done.

    Example: [bold]llm-dec-pomdp runs runs[/]
    """
    from ..results.listing import list_runs

    with usage():
        listed = list_runs(folder)
    if as_json:
        print_json([dataclasses.asdict(run) for run in listed])
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("run", overflow="fold")  # all that is not taken by the others, which hold few characters
    for header in ("status", "progress", "return", "regret", "age"):
        table.add_column(header, no_wrap=True)
    for run in listed:
        row = (run.name, run.status, run.progress_text, run.return_text, run.regret_text, run.age_text)
        table.add_row(*map(plain, row))
    out.print(table)
    for run in listed:
        if run.reason:
            out.print(plain(f"{run.name}: {' '.join(run.reason.split())}"))
