"""Timers for two sides of a comparison that run in turns."""

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
    """Process that runs the peer's side and answers with timings.

    Args:
        python: The interpreter in which the peer is installed.
        threads: Number of threads of its tensor operations.
        clock: "wall" or "cpu".
    """

    def __init__(self, python: str, threads: int, clock: str) -> None:
        here = Path(__file__).parent
        command = [python, str(here / "peer.py"), str(threads), clock]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here
        )

    def ask(self, what: str, **request: Any) -> dict[str, float]:
        """Run the peer once and return its answer.

        Raises:
            RuntimeError: If the process died; the message has the end of its stderr.
        """
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.process.stdin.write(json.dumps({"what": what, **request}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the peer stopped: {self.process.stderr.read()[-2000:]}")
        return json.loads(answer)

    def close(self) -> None:
        """Stop the process."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Timer:
    """Timer of functions in this process.

    Args:
        clock: "wall" or "cpu".
    """

    def __init__(self, clock: str) -> None:
        self.now = CLOCKS[clock]

    def __call__(self, function: Callable[[], Any]) -> float:
        """Return the seconds of one call."""
        gc.collect()
        started = self.now()
        function()
        return self.now() - started


def alternate(runs: int, **sides: Callable[[], float]) -> dict[str, float]:
    """Return the minimum seconds of every side over `runs` rounds, after one round as warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(runs + 1):
        for name, side in sides.items():
            found = side()
            if number:  # the first round is the warm-up
                seconds[name].append(found)
    return {name: min(found) for name, found in seconds.items()}


def row(ratio: float, target: float, **numbers: Any) -> dict[str, Any]:
    """Return a row of the result; a larger `ratio` is better."""
    return {**numbers, "ratio": ratio, "target": target, "met": ratio >= target}
