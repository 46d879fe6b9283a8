"""What tests of the judge share: short jobs, and a verdict as outcome, passed and total."""

from __future__ import annotations

from typing import Any

from llm_dec_pomdp.sandbox import Job, Limits, SandboxPool

QUICK = Limits(cpu_seconds=1.0, case_seconds=0.2, memory_mb=256)
LITTLE_CPU = Limits(cpu_seconds=0.4, case_seconds=0.2, memory_mb=256)
IDENTITY = "def f(x):\n    return x\n"


def check(*lines: str) -> str:
    return "def check(c):\n" + "".join(f"    {line}\n" for line in lines)


def job(solution: str, *lines: str, **kwargs: Any) -> Job:
    return Job(solution, check(*lines), "f", **{"limits": QUICK, **kwargs})


def judged(pool: SandboxPool, solution: str, *lines: str, **kwargs: Any) -> tuple[str, int, int]:
    [verdict] = pool.run([job(solution, *lines, **kwargs)])
    return verdict.outcome, verdict.passed, verdict.total


HONEST = job(IDENTITY, "assert c(1) == 1")
