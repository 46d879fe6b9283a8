"""Commands about runs that were made: `runs` lists them, `export` takes a trained team out of one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from .console import out, print_json, stop, usage
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
        found = list_runs(folder)
    if as_json:
        print_json([dataclasses.asdict(run) for run in found])
        return
    table = Table()
    for header in ("run", "status", "step", "return %", "age"):
        table.add_column(header, overflow="fold")
    table.add_column("reason", overflow="ellipsis", no_wrap=True)  # --json has all of it
    for run in found:
        reason = run.reason.partition("\n")[0]
        row = (run.name, run.status, run.step_text, run.return_text, run.age_text, reason)
        table.add_row(*(escape(text) for text in row))
    out.print(table)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or of one of its cells.")],
    place: Annotated[Path, typer.Argument(metavar="OUT", help="New folder; one folder per agent goes into it.")],
) -> None:
    """Write a trained team as plain folders of transformers or peft, with tokenizer and model card.

    Example: [bold]llm-dec-pomdp export runs/my-run my-team[/]
    """
    from ..benchmarks.export import export_run

    with usage():
        try:
            source, agents = export_run(run, place)
        except FileExistsError as error:
            stop(str(error))
        except OSError as error:
            stop(str(error), code=1)
    out.print(f"{', '.join(agents)} from {source} in {place}", highlight=False)
