"""The command `runs`, which lists runs with their status."""

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
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that holds runs, or folder of one run.")] = Path(
        "runs"
    ),
    as_json: Json = False,
) -> None:
    """List runs with their status, progress and return.

    The status is running, interrupted, failed (with the reason) or done. The return is the one of the newest update, or
    of the final evaluation of a finished run. It is in % of the maximum, or in the unit of the environment if its
    optimum is known. The progress of a benchmark is the number of its finished runs.

    Example: [bold]llm-dec-pomdp runs runs[/]
    """
    from ..results.listing import list_runs

    with usage():
        listed = list_runs(folder)
    if as_json:
        print_json([dataclasses.asdict(run) for run in listed])
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("run", overflow="fold")  # takes the width that the other columns leave
    for header in ("status", "progress", "return", "regret", "age"):
        table.add_column(header, no_wrap=True)
    for run in listed:
        row = (run.name, run.status, run.progress_text, run.return_text, run.regret_text, run.age_text)
        table.add_row(*map(plain, row))
    out.print(table)
    for run in listed:
        if run.reason:
            out.print(plain(f"{run.name}: {' '.join(run.reason.split())}"))
