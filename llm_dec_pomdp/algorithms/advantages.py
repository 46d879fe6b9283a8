"""Returns and group advantages: pure functions on arrays.

A group is the episodes of one task. NaN marks what could not be scored: it is left out of every baseline and its own
advantage is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["std", "mean", "leave_one_out", "max", "raw"]
Array = npt.NDArray[np.float64]
_EQUAL = 1e-12  # returns closer than this, relative to their size, are equal


def returns(rewards: Sequence[float], gamma: float) -> Array:
    """R_t = sum over tau >= t of gamma^(tau - t) r_tau  (arXiv:2508.04652, section 4).

    Args:
        rewards: Joint reward of every turn [T].
        gamma: Discount in [0, 1].
    """
    result = np.zeros(len(rewards))
    following = 0.0
    for t in reversed(range(len(rewards))):
        following = rewards[t] + gamma * following
        result[t] = following
    return result


def group_advantages(values: Sequence[float], kind: Kind = "std") -> Array:
    """Advantages of one group's returns at one turn.

    | kind | A^(g) | source |
    |---|---|---|
    | std | (R^(g) - mean R) / std R, population std | MAGRPO, GRPO |
    | mean | R^(g) - mean R | Dr. GRPO |
    | leave_one_out | R^(g) - mean of the others | RLOO |
    | max | R^(g) - max R | the sampled form of ReMax |
    | raw | R^(g) | REINFORCE |

    A group whose returns are all equal, and a group of one, has advantage exactly 0 under every kind but "raw".

    Args:
        values: R^(g) of every episode of the group [G], NaN where it could not be scored.
        kind: See the table.

    Returns:
        Advantages [G], NaN where `values` is.
    """
    group = np.asarray(values, dtype=np.float64)
    result = np.full_like(group, np.nan)
    scored = ~np.isnan(group)
    r = group[scored]
    if kind == "raw":
        result[scored] = r
    elif len(r) < 2 or np.ptp(r) <= _EQUAL * np.abs(r).max():
        result[scored] = 0.0
    elif kind == "std":
        result[scored] = (r - r.mean()) / r.std()
    elif kind == "mean":
        result[scored] = r - r.mean()
    elif kind == "leave_one_out":
        result[scored] = (r - r.mean()) * len(r) / (len(r) - 1)
    else:
        result[scored] = r - r.max()
    return result
