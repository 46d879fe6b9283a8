"""How long work tells whoever watches; the terminal's version lives in the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Protocol

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
