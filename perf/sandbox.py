"""Compare the speed of the code sandbox with plain processes, on the 164 reference solutions of HumanEval.

    python perf/sandbox.py [--json] [--repeat 3]     programs per second and latency, best of the rounds
    python perf/sandbox.py --growth 10000            memory, descriptors and files before and after 10,000 jobs

The plain process is `python -I -c PROGRAM` without confinement, and its exit code is the verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

from llm_dec_pomdp.envs.coding.analysis import prelude
from llm_dec_pomdp.sandbox import Job, SandboxPool

Passes = Callable[[dict[str, Any]], bool]


def problems() -> list[dict[str, Any]]:
    """Return the 164 problems with their reference solutions."""
    text = (resources.files("llm_dec_pomdp.data") / "humaneval.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def to_job(row: dict[str, Any]) -> Job:
    """Return a reference solution as a job."""
    solution = row["prompt"] + row["canonical_solution"]
    return Job(solution, row["test"], row["entry_point"], prelude(row["prompt"], row["entry_point"]))


def spawn(row: dict[str, Any]) -> bool:
    """Run a program in a new interpreter, and return whether it passes."""
    program = f"{row['prompt']}{row['canonical_solution']}\n{row['test']}\ncheck({row['entry_point']})\n"
    return subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, check=False).returncode == 0


def measure(judge: Passes, rows: Sequence[dict[str, Any]], workers: int) -> dict[str, float]:
    """Return programs per second, median and 95th percentile of the latency, and the number of passed programs."""

    def timed(row: dict[str, Any]) -> tuple[bool, float]:
        started = time.perf_counter()
        return judge(row), time.perf_counter() - started

    started = time.perf_counter()
    with ThreadPoolExecutor(workers) as threads:
        results = list(threads.map(timed, rows))
    took = time.perf_counter() - started
    latency = sorted(seconds * 1000 for _, seconds in results)
    return {
        "per_second": len(rows) / took,
        "median_ms": statistics.median(latency),
        "p95_ms": latency[int(len(latency) * 0.95)],
        "passed": sum(passed for passed, _ in results),
    }


def speed(repeat: int) -> dict[str, Any]:
    """Return the fastest of `repeat` rounds of each method; a round runs all methods one after the other."""
    rows = problems()
    jobs = {row["task_id"]: to_job(row) for row in rows}
    best: dict[str, dict[str, float]] = {}
    started = time.perf_counter()
    with SandboxPool(1) as serial, SandboxPool(2) as parallel:
        serial.run(list(jobs.values())[:1])
        start_seconds = time.perf_counter() - started
        parallel.run(list(jobs.values())[:8])

        def ours(pool: SandboxPool) -> Passes:
            return lambda row: pool.run([jobs[row["task_id"]]])[0].outcome == "passed"

        for _ in range(repeat):
            for name, judge, workers in (
                ("this judge", ours(serial), 1),
                ("this judge", ours(parallel), 2),
                ("plain spawn", spawn, 1),
                ("plain spawn", spawn, 2),
            ):
                found = measure(judge, rows, workers)
                label = f"{name}, {workers} worker{'s' * (workers > 1)}"
                if label not in best or found["per_second"] > best[label]["per_second"]:
                    best[label] = found
        return {"start_seconds": start_seconds, "slowness": serial.slowness, "load": os.getloadavg()[0], "ways": best}


def growth(count: int) -> dict[str, Any]:
    """Return the resources of a pool before and after `count` jobs."""
    jobs = [to_job(row) for row in problems()]
    with SandboxPool(2) as pool:
        pool.run(jobs)
        before = holdings(pool)
        done = 0
        while done < count:
            batch = jobs[: count - done]
            assert all(verdict.outcome == "passed" for verdict in pool.run(batch))
            done += len(batch)
        return {"jobs": count, "before": before, "after": holdings(pool)}


def holdings(pool: SandboxPool) -> dict[str, int]:
    """Return the processes, resident megabytes, descriptors and files of a pool and this process."""
    processes = [Path("/proc/self")]
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if pool.folder in (path / "cmdline").read_bytes().decode("utf-8", "replace"):
                processes.append(path)
        except OSError:
            continue
    pages = sum(int((path / "statm").read_text().split()[1]) for path in processes)
    return {
        "processes": len(processes),
        "megabytes": pages * os.sysconf("SC_PAGE_SIZE") >> 20,
        "descriptors": sum(len(list((path / "fd").iterdir())) for path in processes),
        "files": len(list(Path(pool.folder).glob("*/*"))),
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Compare the speed of the code sandbox with plain processes.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; the best of each is reported")
    parser.add_argument("--growth", type=int, metavar="N", help="instead: resources before and after N jobs")
    options = parser.parse_args()
    found = growth(options.growth) if options.growth else speed(options.repeat)
    if options.json or options.growth:
        print(json.dumps(found, indent=1))
        return
    print(
        f"first verdict after {found['start_seconds']:.2f} s; load {found['load']:.1f}; slow x{found['slowness']:.2f}"
    )
    print(f"{'':24}{'per second':>12}{'median ms':>12}{'95 % ms':>12}{'passed':>8}")
    for label, way in found["ways"].items():
        numbers = f"{way['per_second']:12.1f}{way['median_ms']:12.1f}{way['p95_ms']:12.1f}{way['passed']:8.0f}"
        print(f"{label:24}{numbers}")


if __name__ == "__main__":
    main()
