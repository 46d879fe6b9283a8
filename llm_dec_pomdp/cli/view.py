"""The command `view`: the episodes of a run in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from .console import out, stop, usage


def view(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, which may still be going on.")],
    port: Annotated[int, typer.Option(help="On this machine alone; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open it in a browser.")] = True,
) -> None:
    """Show the episodes of a run, of every checkpoint, and say when there are new ones; Ctrl-C ends it.

    A run keeps the episodes of all its evaluations with --traces, else those of the last.

    Example: [bold]llm-dec-pomdp view runs/my-run[/]
    """
    from ..report.viewer.live import HOST, server
    from ..results.runs import read_run

    with usage():
        read_run(run)
    try:
        serving = server(run, port)
    except (OSError, OverflowError) as error:
        stop(f"port {port} of {HOST} cannot be had ({error}); give another with --port, or 0 for a free one", code=1)
    address = f"http://{HOST}:{serving.server_port}/"
    out.print(f"the episodes of {run} are at {address} until Ctrl-C", soft_wrap=True)
    if browser:
        webbrowser.open(address)
    try:
        serving.serve_forever()
    except KeyboardInterrupt:
        serving.server_close()
