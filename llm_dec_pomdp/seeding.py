"""Counter-based random numbers: each number is derived from labels, and no generator has a state to save.

`derive(run_seed, "rollout", step, item, sample)` is the same integer in every process, on every platform and in any
order of evaluation. So an extra evaluation or another number of workers does not change training, and a single episode
can be replayed.
"""

from __future__ import annotations

import hashlib
import operator

import numpy as np
import numpy.typing as npt


def derive(seed: int, *labels: int | str) -> int:
    """Return the seed that belongs to `labels`.

    Args:
        seed: The parent seed, any integer.
        labels: Labels of the random number, in order; 1 and "1" differ, and so do ("ab",) and ("a", "b").

    Returns:
        An integer in [0, 2**63).
    """
    address = tuple(label if isinstance(label, str) else operator.index(label) for label in (seed, *labels))
    digest = hashlib.blake2b(repr(address).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(seed: int, *labels: int | str) -> np.random.Generator:
    """Return a numpy generator seeded by `derive(seed, *labels)`."""
    return np.random.Generator(np.random.Philox(derive(seed, *labels)))


def uniforms(seed: int, count: int) -> npt.NDArray[np.float64]:
    """Return `count` numbers in [0, 1), shape (count,), from `seed`; a larger `count` only appends numbers."""
    return np.random.Generator(np.random.Philox(seed)).random(count)
