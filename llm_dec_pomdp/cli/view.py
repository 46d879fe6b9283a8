"""The command `view`, which shows the episodes of a run in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from .console import out, stop, usage


def view(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, finished or still running.")],
    port: Annotated[int, typer.Option(help="Port on this machine; 0 chooses a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Show the stored episodes of a run in a browser, also while it is running; Ctrl-C stops the server.

    A run keeps the episodes of its first and last evaluation, and with --traces those of every evaluation.

    Example: [bold]llm-dec-pomdp view runs/my-run[/]
    """
    from ..report.viewer.live import HOST, server
    from ..results.runs import read_run

    with usage():
        read_run(run)
    try:
        serving = server(run, port)
    except (OSError, OverflowError) as error:
        stop(f"cannot listen on {HOST} port {port}: {error}; give another --port, or 0 for a free one", code=1)
    address = f"http://{HOST}:{serving.server_port}/"
    out.print(f"the episodes of {run} are at {address} (Ctrl-C stops the server)", soft_wrap=True)
    if browser:
        webbrowser.open(address)
    try:
        serving.serve_forever()
    except KeyboardInterrupt:
        serving.server_close()
