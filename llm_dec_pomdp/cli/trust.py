"""Rules for loading code that is not installed.

A command loads module:Class if the user typed it on the command line. If only a file or a run names it, the command
needs --trust.

The working folder is not on the search path of modules, so that a file in it (such as jinja2.py or torch.py) is never
imported by accident. It is added at the end of the path only if module:Class was typed or trusted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import stop

if TYPE_CHECKING:
    from ..benchmarks.suite import Cell

Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Allow code (module:Class) and servers that only a file or a run names, not this command line."
    ),
]


def children_without_working_folder() -> None:
    """Keep the working folder off the search path of child Python processes, too (since Python 3.11)."""
    os.environ["PYTHONSAFEPATH"] = "1"


def typed(*names: str) -> None:
    """Add the working folder to the search path if one of these names from the command line is a module:Class."""
    if any(":" in name for name in names) and (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)


def allow(cells: Iterable[Cell], source: Path, by_hand: Iterable[str] = (), *, trust: bool) -> None:
    """Exit with an error message if cells name code or servers that the user neither typed nor trusted.

    Args:
        cells: Cells that the file or run describes.
        source: The file or run, for the message.
        by_hand: Names that the user typed.
        trust: Whether --trust was given.
    """
    by_hand = set(by_hand)
    names = [name for name in dict.fromkeys(name for cell in cells for name in cell.outside) if name not in by_hand]
    if names and not trust:
        stop(
            f"{str(source)!r} names {', '.join(map(repr, names))}: code that would run with your rights, or a server "
            "that would receive prompts and your key; check them, then give --trust, or remove them"
        )
    typed(*names)
