"""Progress of long work: not shown, shown as bars in a terminal, or as lines in a log."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
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
from rich.table import Column
from rich.text import Text

from .storage.signals import before_the_end

Advance = Callable[[int, str], None]
_WIDE = 120  # characters
LONGEST_SILENCE = 10.0  # seconds between two lines of a log


class Progress(Protocol):
    """A display of stages of work."""

    def stage(self, label: str, total: int, done: int = 0) -> AbstractContextManager[Advance]:
        """Return a context manager that opens a stage and yields the function that advances it by units, with a note.

        Args:
            label: Name of the stage.
            total: Number of units.
            done: Number of units that were finished before.
        """
        ...

    def say(self, text: str) -> None:
        """Show a line."""
        ...


class Silent:
    """Progress that is not shown."""

    @contextlib.contextmanager
    def stage(self, label: str, total: int, done: int = 0) -> Generator[Advance]:
        """Yield a function that does nothing."""
        yield lambda units, note: None

    def say(self, text: str) -> None:
        """Do nothing."""


class LogLines(logging.Handler):
    """A log handler that passes warnings and errors to `say`, as lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the formatted record to `say`."""
        self._say(self.format(record))


class _Rate(ProgressColumn):
    """A column with the units per second of a stage."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.2f}/s" if task.speed else "", style="progress.data.speed")


class _Stages:
    """Stages as bars."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars

    @contextlib.contextmanager
    def stage(self, label: str, total: int, done: int = 0) -> Generator[Advance]:
        task = self._bars.add_task(label, total=total, completed=done, note="")
        try:
            yield lambda units, note: self._bars.update(task, advance=units, note=note)
        finally:
            self._bars.remove_task(task)

    def say(self, text: str) -> None:
        self._bars.console.print(text, markup=False, emoji=False, highlight=False)


class Lines:
    """Stages as plain lines.

    Args:
        write: Function that writes a line.
        silence: Seconds without a line after which `never_silent` writes one.
    """

    def __init__(self, write: Callable[[str], None], silence: float = LONGEST_SILENCE) -> None:
        self._write = write
        self._silence = silence
        self._open: list[_Stage] = []
        self._last = time.monotonic()
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def stage(self, label: str, total: int, done: int = 0) -> Generator[Advance]:
        """Write a line with the last note at the end of the stage; no line if there was no note."""
        stage = _Stage(label, total, done)
        with self._lock:
            self._open.append(stage)
        try:
            yield stage.advance
        finally:
            with self._lock:
                self._open.remove(stage)
            if stage.note:
                self.say(stage.text)

    def say(self, text: str) -> None:
        """Write a line with the time of day."""
        with self._lock:
            self._last = time.monotonic()
            self._write(f"{time.strftime('%H:%M:%S')} {text}")

    @contextlib.contextmanager
    def never_silent(self) -> Generator[None]:
        """While the block runs, write the progress of the newest and the outermost stage after each silence."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(max(0.0, self._last + self._silence - time.monotonic())):
                with self._lock:
                    if time.monotonic() - self._last >= self._silence:
                        outermost = f" ({self._open[0].text})" if len(self._open) > 1 else ""
                        self.say(f"{self._open[-1].text}{outermost}" if self._open else "working")

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


class _Stage:
    """Progress of a stage."""

    def __init__(self, label: str, total: int, done: int) -> None:
        self.label, self.note = label, ""
        self._done = self._before = done
        self._total = total
        self._started = self._advanced = time.monotonic()

    def advance(self, units: int, note: str) -> None:
        self._done, self._advanced = self._done + units, time.monotonic()
        self.note = note or self.note

    @property
    def text(self) -> str:
        """Progress in one line, with the estimated time left if some but not all units are done."""
        now = time.monotonic()
        parts = [f"{self._done} of {self._total} in {in_units(now - self._started)}", self.note]
        ended, left = self._done - self._before, self._total - self._done
        parts += [time_left(ended, left, self._advanced - self._started, now - self._advanced)]
        return f"{self.label}: {', '.join(filter(None, parts))}"


def in_units(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours: "40 s", "12 min", "2.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def time_left(done: int, left: int, seconds: float, since: float = 0.0) -> str:
    """Return the estimated time left, as "about 12 min left"; "" if it is unknown.

    The estimate assumes that the remaining units take as long as the finished ones.

    Args:
        done: Number of finished units.
        left: Number of remaining units.
        seconds: Time that the finished units took.
        since: Seconds since the last unit finished.
    """
    expected = seconds / done * left - since if done else 0.0
    return f"about {in_units(expected)} left" if expected > 0 else ""


@contextlib.contextmanager
def shown(console: Console, *, quiet: bool) -> Generator[Progress]:
    """Show progress on a console: bars with rate, time spent and time left in a terminal, else lines.

    Args:
        console: Where to show progress.
        quiet: Show nothing.
    """
    if quiet:
        yield Silent()
    elif not console.is_terminal:
        lines = Lines(lambda line: console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True))
        with lines.never_silent():
            yield lines
    else:
        columns = (
            SpinnerColumn(),
            TextColumn(
                "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
            ),
            BarColumn(bar_width=10 if console.width < _WIDE else 40),
            MofNCompleteColumn(),
            *([_Rate()] if console.width >= _WIDE else []),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}", markup=False),
        )
        show_cursor = b"\x1b[?25h"  # written directly, because another thread may hold the lock of rich
        with before_the_end(lambda: os.write(2, show_cursor)), Bars(*columns, console=console, expand=True) as bars:
            yield _Stages(bars)
