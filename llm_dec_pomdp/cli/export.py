"""The command `export`, which writes the trained team of a run for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import out, stop, usage
from .options import Out, output
from .trust import Trust, allow


def export(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run, or one folder in cells/ of a benchmark.")
    ],
    place: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="New folder, with a folder for each agent.")
    ] = None,
    out_folder: Out = None,
    hub: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME",
            help="Also upload the team to this repository of the Hugging Face hub; a new repository is private.",
        ),
    ] = None,
    trust: Trust = False,
) -> None:
    """Write a trained team as folders that transformers or peft can load, with tokenizer and model card.

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
    out.print(f"wrote {', '.join(agents)} from {source} to {place}")
    if hub is not None:
        try:
            out.print(f"uploaded to {upload(place, hub)}")
        except ConnectionError as error:
            stop(str(error), code=1)
