"""The command-line program `llm-dec-pomdp`, with a module for each command; `console` has the exit codes."""

from __future__ import annotations

import logging
import os
from typing import Annotated

import typer

from ..__about__ import __version__
from . import (
    bench,
    board,
    check,
    crossplay,
    doctor,
    engine,
    eval,
    export,
    label,
    list,
    play,
    report,
    rescore,
    robustness,
    runs,
    serve,
    serve_team,
    trace,
    train,
    view,
)
from .console import EXIT_CODES, err, out
from .options import Command, Group
from .trust import children_without_working_folder

app = typer.Typer(
    cls=Group,
    help="Environments and learners for teams of language models.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    _show_logs()
    os.environ.setdefault("TQDM_DISABLE", "1")  # progress bars of other libraries would mix with ours, or fill a log
    if version:
        out.print(__version__)
        raise typer.Exit


def _show_logs() -> None:
    """Print warnings of this package like all other text for the terminal."""
    from ..progress import LogLines

    logger = logging.getLogger("llm_dec_pomdp")
    if not any(isinstance(handler, LogLines) for handler in logger.handlers):
        logger.addHandler(LogLines(err.print))


# In the order of the help page.
for name, command in {
    "list": list.list_,
    "check": check.check,
    "doctor": doctor.doctor,
    "play": play.play,
    "eval": eval.eval_,
    "train": train.train,
    "bench": bench.bench,
    "crossplay": crossplay.crossplay,
    "robustness": robustness.robustness,
    "report": report.report,
    "runs": runs.runs,
    "view": view.view,
    "label": label.label,
    "rescore": rescore.rescore,
    "export": export.export,
    "engine": engine.engine,
    "serve": serve.serve,
    "serve-team": serve_team.serve_team,
}.items():
    app.command(name, cls=bench.WithSuites if name == "bench" else Command)(command)
app.add_typer(trace.app, name="trace")
app.add_typer(board.app, name="board")


def main() -> None:
    """Run the command `llm-dec-pomdp`."""
    children_without_working_folder()
    app()
