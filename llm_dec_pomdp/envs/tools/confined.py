"""Programs of tools in the judge's sandbox (docs/sandbox.md): a process of its own, whose limits hold for any input."""

from __future__ import annotations

from ...sandbox import Job, Limits, default_pool
from .function import LateError

_CHECK = "def check(candidate):\n    return candidate()\n"
_REASONS = {"timeout": "it took too long", "died": "it ended its process, or took too much memory"}


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
    if verdict.returned is None:
        reason = _REASONS.get(verdict.outcome, verdict.outcome)
        refused = LateError if verdict.outcome == "timeout" else ValueError
        raise refused("; ".join(dict.fromkeys([reason, *verdict.notes[:1]])))
    return verdict.returned
