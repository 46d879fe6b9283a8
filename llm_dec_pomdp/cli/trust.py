"""Code that is not installed: a command loads module:Class where it was typed, and with --trust what a file names.

The working folder is not searched for modules, so that a file which happens to lie there (jinja2.py, torch.py) is never
run. Only where module:Class is typed or trusted is it searched, after everything else.
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

Trust = Annotated[bool, typer.Option("--trust", help="Load module:Class and ask servers that a file or a run names.")]


def children_without_working_folder() -> None:
    """Let Python processes that this one starts not search the working folder either (since Python 3.11)."""
    os.environ["PYTHONSAFEPATH"] = "1"


def typed(*names: str) -> None:
    """Names from the command line: module:Class among them may be in the working folder."""
    if any(":" in name for name in names) and (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)


def allow(cells: Iterable[Cell], source: Path, by_hand: Iterable[str] = (), *, trust: bool) -> None:
    """Stop where `source`, a file or a run, names code or servers that nobody typed (`by_hand`), unless --trust was."""
    by_hand = set(by_hand)
    names = [name for name in dict.fromkeys(name for cell in cells for name in cell.outside) if name not in by_hand]
    if names and not trust:
        stop(
            f"{str(source)!r} names {', '.join(map(repr, names))}: code that would run with your rights, or a server "
            "that would be sent prompts and your key; look at what they are, then give --trust, or do without them"
        )
    typed(*names)
