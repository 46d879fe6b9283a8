"""A trial of the user's own rows before training: finds tests that end or block the sandbox.

Every row is run once with a program that raises an error at every call. With usable tests only the asserts fail then.
Tests that loop for ever, sleep, end their process or raise an error before their asserts do so with any program.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from ... import sandbox
from ...sandbox import SandboxError, Verdict
from ...types import TaskItem
from .reward import detail, job

SECONDS = 60.0  # time after which no further rows are tried
_AT_ONCE = 64  # rows that are tried in parallel
_RAISED = "llm_dec_pomdp tries out this row"
_log = logging.getLogger(__name__)


def first_unusable(items: Sequence[TaskItem], seconds: float = SECONDS) -> tuple[TaskItem, str] | None:
    """Return the first row on which no program can be scored, and the reason with its field; None if all are usable.

    Args:
        items: The rows. If the sandbox does not work on this machine, none is tried; scoring raises the error later.
        seconds: Time after which no further rows are tried. Rows in progress end by the limits of the sandbox.
    """
    end = time.monotonic() + seconds
    for start in range(0, len(items), _AT_ONCE):
        if time.monotonic() > end:
            _log.warning("tried %d of %d rows in %.0f s; the remaining rows have no trial", start, len(items), seconds)
            return None
        tried = items[start : start + _AT_ONCE]
        try:
            verdicts = sandbox.default_pool().run([job(item, _program(item)) for item in tried])
        except SandboxError:
            return None
        for item, verdict in zip(tried, verdicts, strict=True):
            if problem := _problem(verdict):
                return item, f"{problem}; correct or remove the row"
    return None


def _program(item: TaskItem) -> str:
    return f"def {item.fields['entry_point']}(*arguments, **named):\n    raise NotImplementedError({_RAISED!r})\n"


def _problem(verdict: Verdict) -> str:
    """Return why no program can pass, from the verdict on a program that raises; "" if one may pass."""
    reason = detail(verdict)
    if verdict.outcome in ("passed", "failed", "unsupported"):
        return ""
    if verdict.outcome == "died" and _RAISED in reason:  # the module of the tests calls the program
        return ""
    if verdict.outcome == "load_error" or reason == "loading took too long":
        return f"field 'prompt': its imports and functions cannot be loaded ({reason})"
    ends = {"timeout": "exceed the time limit", "infra_error": "end or block the sandbox"}
    return (
        f"field 'test': its tests {ends.get(verdict.outcome, 'end before their asserts')} with any program ({reason})"
    )
