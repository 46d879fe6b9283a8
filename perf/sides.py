"""Two sides of a comparison, timed in turns."""

from __future__ import annotations

import gc
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Peer:
    """A process that runs the peer's side and answers with timings.

    Args:
        python: The interpreter in which the peer is installed.
        threads: Threads of its tensor operations.
        clock: "wall" or "cpu".
    """

    def __init__(self, python: str, threads: int, clock: str) -> None:
        here = Path(__file__).parent
        command = [python, str(here / "peer.py"), str(threads), clock]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here
        )

    def ask(self, what: str, **request: Any) -> dict[str, float]:
        """One run of the peer.

        Raises:
            RuntimeError: The process died; the end of what it said.
        """
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.process.stdin.write(json.dumps({"what": what, **request}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the peer stopped: {self.process.stderr.read()[-2000:]}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Timer:
    """Times functions of this process.

    Args:
        clock: "wall" or "cpu".
    """

    def __init__(self, clock: str) -> None:
        self.now = CLOCKS[clock]

    def __call__(self, function: Callable[[], Any]) -> float:
        """Seconds of one call."""
        gc.collect()
        started = self.now()
        function()
        return self.now() - started


def alternate(runs: int, **sides: Callable[[], float]) -> dict[str, float]:
    """Seconds of every side: the minimum over `runs` rounds in which every side runs once, after one to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(runs + 1):
        for name, side in sides.items():
            found = side()
            if number:  # the first round warms up
                seconds[name].append(found)
    return {name: min(found) for name, found in seconds.items()}


def row(ratio: float, target: float, **numbers: Any) -> dict[str, Any]:
    """A row of the result; `ratio` is larger when it is better."""
    return {**numbers, "ratio": ratio, "target": target, "met": ratio >= target}
