"""Waiting for what another process or thread does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def wait_until(holds: Callable[[], object], process: subprocess.Popen[Any] | None = None) -> None:
    """Return once it holds; fail when the process ends before, or after a limit that only a fault reaches."""
    end = time.monotonic() + 600
    while not holds():
        assert process is None or process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)


def left_of(group: int) -> list[int]:
    """Processes of a group that have not ended."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it ended meanwhile
            continue
        if int(pgrp) == group and state != "Z":
            found.append(int(path.parent.name))
    return found
