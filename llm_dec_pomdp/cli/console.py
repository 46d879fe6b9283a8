"""Output of the commands, and their exit codes (`EXIT_CODES`)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import RenderableType

from ..printable import Rows, Terminal, plain
from ..registries import UnknownNameError
from ..storage.runfolder import finite
from ..user_code import is_of_user, is_sentence, user_traceback, where

EXIT_CODES = """[bold]Exit codes[/]

 0  Success.

 1  The work failed: a check did not pass, a run could not continue, or your own code raised an exception. The last line
gives the reason. Checkpoints are kept.

 2  Wrong usage or input. Nothing was run. The last line names the option, file or value, and a remedy.

 3  Training diverged: a loss or gradient was not finite three times, or --on-divergence stopped the run.
Lower the learning rate.

75  A signal stopped a run that can be resumed. Nothing is lost. The last line is the command that resumes it.
"""
out = Terminal()
err = Terminal(stderr=True)


def stop(message: str, code: int = 2) -> NoReturn:
    """Print an error message in one line, so that paths and commands can be copied, and exit with this code."""
    err.print(plain("error:", "red"), message, soft_wrap=True)
    raise typer.Exit(code)


@contextlib.contextmanager
def usage() -> Generator[None]:
    """Turn errors of the package into a message with exit code 2, or 1 for a server that does not answer.

    Exceptions of user code and of libraries are not caught, see `showing_user_code`.
    """
    try:
        yield
    except ConnectionError as error:
        if is_of_user(error):
            raise
        stop(str(error), code=1)
    except (ValueError, UnknownNameError, IndexError, ImportError) as error:
        if not is_sentence(error):
            raise
        stop(str(error))


@contextlib.contextmanager
def showing_user_code() -> Generator[None]:
    """Exit with code 1 and the traceback of user code, if user code raised; do not catch other exceptions."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        if not is_of_user(error):
            raise
        err.print(user_traceback(error), soft_wrap=True)
        stop(f"{where(error)}: {type(error).__name__}: {error}", code=1)


@contextlib.contextmanager
def failure(folder: Path, *, command: str | None = None, option: str = "--resume") -> Generator[None]:
    """Turn errors of a run into a message and one of `EXIT_CODES`.

    Args:
        folder: Folder of the run.
        command: Command that resumes a run which was stopped or whose server failed; None: `bench` or `train`, by the
            content of the folder.
        option: Option of this command that takes the folder.
    """
    from ..agents.engines import EngineError
    from ..agents.oom import OutOfDeviceMemoryError
    from ..storage.signals import Interrupted, stopping_at_once
    from ..training import DivergedError, TrainingError

    def advice() -> str:
        known = command or ("bench" if (folder / "suite.json").exists() else "train")
        return f"continue with: llm-dec-pomdp {known} {option} {folder}"

    try:
        with stopping_at_once(lambda text: err.print(text)), usage():
            try:
                yield
            except ConnectionError as error:
                stop(f"{error}; what is finished is kept, {advice()}", code=1)
    except Interrupted as asked:
        err.print(f"stopped ({asked.reason}); {advice()}")
        raise
    except DivergedError as error:
        stop(str(error), code=3)
    except (TrainingError, EngineError, OutOfDeviceMemoryError, OSError) as error:
        if is_of_user(error):
            raise
        stop(str(error), code=2 if isinstance(error, FileExistsError) else 1)


def show_report(lines: Iterable[RenderableType], folder: Path) -> None:
    """Print the findings of a run, and as the last line the command that opens its report."""
    for line in lines:
        out.print(line)
    out.print(f"open the report: python -m webbrowser {(folder / 'report.html').resolve().as_uri()}", soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON document, with null for numbers that are not finite."""
    print(json.dumps(finite(value), indent=1))  # noqa: T201  # for programs: no wrapping, no colour


def print_table(headers: Iterable[str], rows: Iterable[Iterable[str]], title: str = "") -> None:
    """Print a table of strings, see `Rows`."""
    out.print(Rows(headers, rows, title=title))
