"""An outside judge of reports: any policy that reads a prompt and answers with a number."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable

from ....types import TaskItem
from .corpus import corpus
from .free import listed
from .scoring import Work

Expert = Callable[[str, int], str]  # (prompt, number of the try) -> answer
TRIES = 3
BEST = 10
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def judged(expert: Expert, item: TaskItem, work: Work) -> float:
    """A judge's score of a report, in [0, 1]; NaN, with a warning, where three tries give no number or raise.

    The judge is not shown the answer of the task.
    """
    prompt = (
        f"A sub-agent was to find out: {work.subtask}\n\nIt was shown:\n"
        f"{listed(corpus(item.fields['corpus']), work.retrieved) or '(nothing)'}\n\nIt reports: {work.report}\n\n"
        f"How well does the report do the task, by what was shown alone? Answer with one number from 0 to {BEST}."
    )
    failures: list[str] = []
    for number in range(TRIES):
        try:
            answer = expert(prompt, number)
        except Exception as error:  # a judge that fails has said nothing
            failures.append(f"it raised {type(error).__name__}: {error}")
            continue
        match = _NUMBER.search(answer)
        if match and float(match.group()) <= BEST:
            return float(match.group()) / BEST
        failures.append(f"it said {answer!r:.80}, which holds no number from 0 to {BEST}")
    warnings.warn(f"the judge gave no number in {TRIES} tries: {failures[-1]}", stacklevel=2)
    return math.nan
