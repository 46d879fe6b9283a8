"""The command line: `llm-dec-pomdp list | check | doctor | play | eval | train | bench | report | runs | export`.

A module per kind of command, and here the program that they make up. Exit codes: see `console`.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ..__about__ import __version__
from . import comparing, keeping, looking, playing, running
from .console import out

app = typer.Typer(
    help="Environments and learners for teams of language models.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    os.environ.setdefault("TQDM_DISABLE", "1")  # bars of other libraries, beside our own or in a log
    if "" not in sys.path:
        sys.path.insert(0, "")  # so that module:Class finds a file in the current folder, as `python -m` does
    if version:
        out.print(__version__, highlight=False)
        raise typer.Exit


# In the order of the help page.
app.command("list")(looking.list_)
app.command()(looking.check)
app.command()(looking.doctor)
app.command()(playing.play)
app.command("eval")(running.eval_)
app.command()(running.train)
app.command(cls=comparing.WithSuites)(comparing.bench)
app.command()(comparing.report)
app.command()(keeping.runs)
app.command()(keeping.export)


def main() -> None:
    """Entry point of the `llm-dec-pomdp` command."""
    app()
