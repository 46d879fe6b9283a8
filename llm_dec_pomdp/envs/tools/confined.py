"""Programs of tools in the judge's sandbox (docs/sandbox.md): a process of its own, whose limits hold for any input."""

from __future__ import annotations

from ...sandbox import Job, Limits, default_pool
from .function import LateError

_CHECK = "def check(candidate):\n    return candidate()\n"


def returned(source: str, limits: Limits) -> str:
    """Run a program and return the text that its function `program` returns.

    Args:
        source: Python that imports the standard library only.
        limits: CPU time and memory.

    Raises:
        LateError: It took too much time.
        ValueError: It exceeded another limit, or returned no text.
        SandboxError: Programs cannot be confined on this machine.
    """
    [verdict] = default_pool().run([Job(source, _CHECK, "program", limits=limits)])
    if verdict.outcome == "timeout":
        raise LateError("it took too long")
    if verdict.returned is None:
        reason = "it ended its process, or took too much memory" if verdict.outcome == "died" else verdict.outcome
        raise ValueError("; ".join([reason, *verdict.notes[:1]]))
    return verdict.returned
