"""Waiting for what another process or thread does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any


def wait_until(holds: Callable[[], object], process: subprocess.Popen[Any] | None = None) -> None:
    """Return once it holds; fail when the process ends before, or after a limit that only a fault reaches."""
    end = time.monotonic() + 120
    while not holds():
        assert process is None or process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
