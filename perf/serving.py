"""Measure a server with 200 sessions at once for a minute, against the same environment in this process.

    python perf/serving.py [--json] [--sessions 200] [--seconds 60]

The server process and this process share the machine. Each session starts an episode of tldr-v0 every second, like a
team of models that needs a second to sample its actions. It plays through its own `RemoteEnv`. Then eight sessions play
without pauses. A ratio is target / measured: larger is better, and the target is met at 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.serving import RemoteEnv

ENV_ID = "tldr-v0"
OVERHEAD_TARGET_MS = 20.0  # p95 of reset and step, minus the time in this process
GROWTH_TARGET_MB = 8.0  # growth of the server from a quarter of the time to the end
FAST = 8  # sessions without pauses
SERVE = [sys.executable, "-c", "from llm_dec_pomdp.cli import main; main()", "serve", ENV_ID, "--port", "0"]


def episode_ms(env: TextDecPOMDP, gold: list[dict[str, str]], index: int) -> float:
    """Return the milliseconds of a reset and of a step with the references."""
    begun = time.perf_counter()
    env.reset(options={"index": index})
    env.step(gold[index])
    return (time.perf_counter() - begun) * 1e3


def all_at_once(count: int, play: Callable[[int], None]) -> list[str]:
    """Play in `count` threads, and return their errors."""
    failed: list[str] = []

    def run(number: int) -> None:
        try:
            play(number)
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def memory_mb(process: int) -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def p95(times: list[float]) -> float:
    """Return the 95th percentile of times."""
    return sorted(times)[int(0.95 * len(times))]


def measure(url: str, process: int, sessions: int, seconds: float) -> dict[str, Any]:
    """Return all figures of one server."""
    local = llm_dec_pomdp.make(ENV_ID, split="all")
    gold = [dict(zip(local.possible_agents, item.reference, strict=True)) for item in local.items]
    here = [episode_ms(local, gold, number % len(gold)) for number in range(2000)]
    envs = [RemoteEnv(url) for _ in range(sessions)]
    times: list[float] = []
    begun = time.monotonic()

    def every_second(number: int) -> None:
        draw = random.Random(number)
        due = begun + draw.random()
        while due < begun + seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            times.append(episode_ms(envs[number], gold, draw.randrange(len(gold))))
            due += 1.0

    early: list[float] = []
    look = threading.Timer(seconds / 4, lambda: early.append(memory_mb(process)))
    look.start()
    failed = all_at_once(sessions, every_second)
    late = memory_mb(process)
    fast: list[float] = []
    end = time.monotonic() + seconds / 6

    def without_waiting(number: int) -> None:
        while time.monotonic() < end:
            fast.append(episode_ms(envs[number], gold, number))

    failed += all_at_once(min(FAST, sessions), without_waiting)
    for env in envs:
        env.close()
    over = p95(times) - p95(here)
    return {
        "sessions": sessions,
        "seconds": seconds,
        "episodes": len(times),
        "failed": failed[:3],
        "in_process_p95_ms": p95(here),
        "served_median_ms": sorted(times)[len(times) // 2],
        "served_p95_ms": p95(times),
        "overhead_p95_ratio": OVERHEAD_TARGET_MS / over,
        "server_mb": [early[0], late],
        "memory_ratio": GROWTH_TARGET_MB / max(late - early[0], 0.01),
        "fast_episodes_per_second": len(fast) / (seconds / 6),
        "fast_p95_ms": p95(fast),
    }


def main() -> None:
    """Start a server, measure it, and print the figures."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--json", action="store_true")
    options.add_argument("--sessions", type=int, default=200)
    options.add_argument("--seconds", type=float, default=60.0)
    given = options.parse_args()
    sys.setswitchinterval(5e-4)  # otherwise the waiting of 200 client threads dominates
    server = subprocess.Popen(SERVE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        figures = measure(server.stdout.readline().strip(), server.pid, given.sessions, given.seconds)
    finally:
        server.terminate()
        server.wait()
    if given.json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures.items():
        print(f"{name:28} {value if isinstance(value, (int, list)) else round(value, 2)}")


if __name__ == "__main__":
    main()
