"""What judging a class costs: judgements per second, the ratio to running its tests bare, and memory over many.

    python perf/class_judging.py [--rounds 3] [--many 10000]

The embedded classes with their own solutions, by one judge. Bare is the same `unittest` module in this process, with
nothing confined and nothing between tests and class. Memory is that of this process and of all that it started, in
MB, after a tenth of the judgements and after all of them.
"""

from __future__ import annotations

import argparse
import io
import time
import unittest
from pathlib import Path
from typing import Any

from llm_dec_pomdp.envs.software.classes import own_rows
from llm_dec_pomdp.envs.software.program import gold_of, spec_of
from llm_dec_pomdp.envs.software.reward import job
from llm_dec_pomdp.sandbox import Job, SandboxPool

PAGE = 4096 / 1e6  # MB


def bare(program: Job) -> None:
    """Run the tests of a job here."""
    scope: dict[str, Any] = {"__name__": "bare"}
    [(_, source)] = program.modules
    exec(compile(source, "solution", "exec"), scope)
    exec(compile(program.check.partition("\n")[2], "tests", "exec"), scope)
    cases = [value for value in scope.values() if isinstance(value, type) and issubclass(value, unittest.TestCase)]
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases))
    assert unittest.TextTestRunner(stream=io.StringIO()).run(suite).wasSuccessful()


def family(pid: str = "self") -> list[str]:
    """Process numbers of a process and of all that it started."""
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += family(child)
    return found


def memory() -> float:
    """MB of this process and of all that it started."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE for pid in family())


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--many", type=int, default=10_000)
    given = options.parse_args()
    specs = [spec_of(row) for row in own_rows()]
    jobs = [job(spec, gold_of(spec.solution, spec.class_name)) for spec in specs]
    judged = alone = float("inf")
    with SandboxPool(1) as pool:
        pool.run(jobs[:1])
        for _ in range(given.rounds):
            begun = time.perf_counter()
            assert all(verdict.outcome == "passed" for verdict in pool.run(jobs))
            judged = min(judged, time.perf_counter() - begun)
            begun = time.perf_counter()
            for program in jobs:
                bare(program)
            alone = min(alone, time.perf_counter() - begun)
        print(f"judged  {len(jobs) / judged:7.1f} classes per second")
        print(f"bare    {len(jobs) / alone:7.1f} classes per second")
        print(f"ratio   {judged / alone:7.1f} (seconds judged / seconds bare)")
        seen: list[float] = []
        for number in range(given.many):
            pool.run([jobs[number % len(jobs)]])
            if number + 1 in (given.many // 10, given.many):
                seen.append(memory())
        print(f"memory  {seen[0]:.1f} MB after {given.many // 10}, {seen[-1]:.1f} MB after {given.many}")


if __name__ == "__main__":
    main()
