"""Rows of a user's own, tried out before a training: tests that end the judge or hold it are found before they are met.

Every row is judged once with a program that raises at every call. Its asserts fail then, and that is all that may
happen: tests that loop for ever, sleep, end their process or raise before their asserts do so with any program.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from ... import sandbox
from ...sandbox import SandboxError, Verdict
from ...types import TaskItem
from .reward import detail, job

SECONDS = 60.0  # after which no further rows are tried
_AT_ONCE = 64  # rows
_RAISED = "llm_dec_pomdp tries out this row"
_log = logging.getLogger(__name__)


def first_unusable(items: Sequence[TaskItem], seconds: float = SECONDS) -> tuple[TaskItem, str] | None:
    """The first row on which no program can be scored, and why, naming its field; None where there is none.

    Args:
        items: The rows. Where programs cannot be judged here, none is tried: the judge says that itself.
        seconds: After which no further rows are tried; rows that are being tried end by the limits of the judge.
    """
    end = time.monotonic() + seconds
    for start in range(0, len(items), _AT_ONCE):
        if time.monotonic() > end:
            _log.warning("%d of %d rows were tried out in %.0f s, the others were not", start, len(items), seconds)
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
    """Why no program can pass, by the verdict on one that raises; "" where one may."""
    reason = detail(verdict)
    if verdict.outcome in ("passed", "failed", "unsupported"):
        return ""
    if verdict.outcome == "died" and _RAISED in reason:  # the module of the tests calls the program
        return ""
    if verdict.outcome == "load_error" or reason == "loading took too long":
        return f"field 'prompt': the imports and functions that it gives cannot be loaded ({reason})"
    ends = {"timeout": "run into the limit of time", "infra_error": "end or block the judge"}
    return (
        f"field 'test': its tests {ends.get(verdict.outcome, 'end before their asserts')} with any program ({reason})"
    )
