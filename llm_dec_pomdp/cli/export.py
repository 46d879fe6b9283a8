"""The command `export`: take a trained team out of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import out, stop, usage
from .options import Out, output
from .trust import Trust, allow


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or of one of its cells.")],
    place: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="New folder; one folder per agent goes into it.")
    ] = None,
    out_folder: Out = None,
    hub: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="Also upload it to this repository of the hub, made private if new."),
    ] = None,
    trust: Trust = False,
) -> None:
    """Write a trained team as plain folders of transformers or peft, with tokenizer and model card.

    Examples: [bold]llm-dec-pomdp export runs/my-run my-team[/]
              [bold]llm-dec-pomdp export runs/my-run --out my-team[/]
    """
    from ..results.export import export_run, trained_cell, upload

    place = output(place, out_folder)
    with usage():
        allow([trained_cell(run)[0]], run, trust=trust)
        try:
            source, agents = export_run(run, place)
        except FileExistsError as error:
            stop(str(error))
        except OSError as error:
            stop(str(error), code=1)
    out.print(f"{', '.join(agents)} from {source} in {place}")
    if hub is not None:
        try:
            out.print(f"uploaded to {upload(place, hub)}")
        except ConnectionError as error:
            stop(str(error), code=1)
