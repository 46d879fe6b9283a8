"""Schedules of the learning rate: pure functions of the update's number."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["constant", "linear", "cosine"]


def factor(update: int, schedule: Schedule, warmup: int, horizon: int) -> float:
    """Return the factor of the learning rate: it rises linearly to 1 over `warmup` updates and falls to 0 at `horizon`.

    Args:
        update: Number of the update, from 1.
        schedule: "constant", or a fall to 0 that is "linear" or half a period of a "cosine".
        warmup: Updates until the factor is 1; 0: no warmup.
        horizon: Updates after which the factor is 0; not used by "constant".
    """
    if update <= warmup:
        return update / warmup
    if schedule == "constant":
        return 1.0
    progress = min((update - 1 - warmup) / (horizon - warmup), 1.0)
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
