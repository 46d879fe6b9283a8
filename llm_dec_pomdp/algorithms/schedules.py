"""Learning rates over a run: pure functions of the update's number."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["constant", "linear", "cosine"]


def factor(update: int, schedule: Schedule, warmup: int, horizon: int) -> float:
    """What the learning rate is multiplied with.

    It rises linearly to 1 over the first `warmup` updates and then falls to 0 after `horizon` updates: not at all, on a
    line, or on half a cosine.

    Args:
        update: Number of the update, from 1.
        schedule: How it falls.
        warmup: Updates until 1 is reached; 0 starts with 1.
        horizon: Updates after which it is 0; not used by "constant".
    """
    if update <= warmup:
        return update / warmup
    if schedule == "constant":
        return 1.0
    progress = min((update - 1 - warmup) / (horizon - warmup), 1.0)
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
