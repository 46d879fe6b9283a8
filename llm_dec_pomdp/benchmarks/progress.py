"""How long work tells whoever watches: silently, or as bars in a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

Advance = Callable[[int, str], None]


class Progress(Protocol):
    """Shows stages of work."""

    def stage(self, label: str, total: int) -> AbstractContextManager[Advance]:
        """A stage of `total` units; call the function with units done and a short note."""
        ...


class Silent:
    """Shows nothing."""

    @contextlib.contextmanager
    def stage(self, label: str, total: int) -> Generator[Advance]:
        """Do nothing with it."""
        yield lambda units, note: None


class _Rate(ProgressColumn):
    """Units per second of a stage."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.2f}/s" if task.speed else "", style="progress.data.speed")


class _Stages:
    """Stages as bars."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars

    @contextlib.contextmanager
    def stage(self, label: str, total: int) -> Generator[Advance]:
        task = self._bars.add_task(label, total=total, note="")
        try:
            yield lambda units, note: self._bars.update(task, advance=units, note=note)
        finally:
            self._bars.remove_task(task)


@contextlib.contextmanager
def bars(console: Console, *, quiet: bool) -> Generator[Progress]:
    """Stages as bars with rate, time spent and time left; nothing at all when `quiet`."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Bars(*columns, console=console, disable=quiet) as shown:
        yield _Stages(shown)
