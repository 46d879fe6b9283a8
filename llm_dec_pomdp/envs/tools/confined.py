"""Programs of tools in the code sandbox (docs/sandbox.md): a separate process, whose limits hold for any input."""

from __future__ import annotations

from ...sandbox import Job, Limits, default_pool
from .function import LateError

_CHECK = "def check(candidate):\n    return candidate()\n"


def returned(source: str, limits: Limits) -> str:
    """Run a program and return the text that its function `program` returns.

    Args:
        source: A Python program that imports only the standard library.
        limits: Limits of CPU time and memory.

    Raises:
        LateError: The program took too much time.
        ValueError: The program exceeded another limit, or returned no text.
        SandboxError: The sandbox does not work on this machine.
    """
    [verdict] = default_pool().run([Job(source, _CHECK, "program", limits=limits)])
    if verdict.outcome == "timeout":
        raise LateError("it took too long")
    if verdict.returned is None:
        reason = "it ended its process, or took too much memory" if verdict.outcome == "died" else verdict.outcome
        raise ValueError("; ".join([reason, *verdict.notes[:1]]))
    return verdict.returned
