"""Measure the code sandbox on classes: classes per second, the ratio to plain `unittest`, and memory over many jobs.

    python perf/class_judging.py [--rounds 3] [--many 10000]

The jobs are the embedded classes with their reference solutions. They run with one worker and with one worker per core.
"bare" is the same `unittest` module in this process without confinement. CPU time counts all processes. Memory, in MB,
counts this process and its descendants with one worker, after a tenth of the jobs and after all of them.
"""

from __future__ import annotations

import argparse
import io
import os
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_dec_pomdp.contrib.software.classes import own_rows
from llm_dec_pomdp.contrib.software.program import gold_of, spec_of
from llm_dec_pomdp.contrib.software.reward import job
from llm_dec_pomdp.sandbox import Job, SandboxPool

PAGE = 4096 / 1e6  # MB


def bare(program: Job) -> None:
    """Run the tests of a job in this process."""
    scope: dict[str, Any] = {"__name__": "bare"}
    [(_, source)] = program.modules
    exec(compile(source, "solution", "exec"), scope)
    exec(compile(program.check.partition("\n")[2], "tests", "exec"), scope)
    cases = [value for value in scope.values() if isinstance(value, type) and issubclass(value, unittest.TestCase)]
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases))
    assert unittest.TextTestRunner(stream=io.StringIO()).run(suite).wasSuccessful()


def family(pid: str = "self") -> list[str]:
    """Return the ids of a process and of all its descendants."""
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += family(child)
    return found


def memory() -> float:
    """Return the memory of this process and its descendants in MB."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE for pid in family())


def cpu() -> float:
    """Return the CPU seconds of this process and its descendants."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in family()]
    return sum(int(ticks) for field in fields for ticks in field[11:15]) / os.sysconf("SC_CLK_TCK")


def fastest(rounds: int, work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of the fastest round, and the mean CPU seconds of a round."""
    best, used = float("inf"), cpu()
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best, (cpu() - used) / rounds


def main() -> None:
    """Measure, and print the figures."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--many", type=int, default=10_000)
    given = options.parse_args()
    specs = [spec_of(row) for row in own_rows()]
    jobs = [job(spec, gold_of(spec.solution, spec.class_name)) for spec in specs]
    alone, used = fastest(given.rounds, lambda: [bare(program) for program in jobs])
    print(f"bare      {len(jobs) / alone:7.1f} classes per second, {1000 * used / len(jobs):5.1f} ms of CPU each")
    for workers in sorted({1, len(os.sched_getaffinity(0))}):
        with SandboxPool(workers) as pool:
            assert all(verdict.outcome == "passed" for verdict in pool.run(jobs))
            judged, used = fastest(given.rounds, lambda pool=pool: pool.run(jobs))
        print(
            f"{workers} workers {len(jobs) / judged:7.1f} classes per second, {1000 * used / len(jobs):5.1f} ms of CPU "
            f"each; {judged / alone:.1f} times the seconds of plain unittest"
        )
    if given.many:
        with SandboxPool(1) as pool:
            seen: list[float] = []
            for number in range(given.many):
                pool.run([jobs[number % len(jobs)]])
                if number + 1 in (given.many // 10, given.many):
                    seen.append(memory())
        print(f"memory    {seen[0]:.1f} MB after {given.many // 10}, {seen[-1]:.1f} MB after {given.many}")


if __name__ == "__main__":
    main()
