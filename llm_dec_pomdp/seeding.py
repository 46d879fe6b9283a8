"""Counter-based randomness: every draw has an address, and no generator has a state that could be lost.

`derive(run_seed, "rollout", step, item, sample)` is the same integer in every process, on every platform and in any
order of evaluation, so an extra evaluation or another number of workers cannot shift training, and one episode can be
replayed alone.
"""

from __future__ import annotations

import hashlib
import operator

import numpy as np
import numpy.typing as npt


def derive(seed: int, *labels: int | str) -> int:
    """A seed for the thing that `labels` name.

    Args:
        seed: The parent seed, any integer.
        labels: The address; 1 and "1" are different, and so are ("ab",) and ("a", "b").

    Returns:
        An integer in [0, 2**63).
    """
    address = tuple(label if isinstance(label, str) else operator.index(label) for label in (seed, *labels))
    digest = hashlib.blake2b(repr(address).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(seed: int, *labels: int | str) -> np.random.Generator:
    """A numpy generator of its own for the thing that `labels` name."""
    return np.random.Generator(np.random.Philox(derive(seed, *labels)))


def uniforms(seed: int, count: int) -> npt.NDArray[np.float64]:
    """`count` draws from [0, 1) that belong to `seed` alone; a longer call begins with the same numbers."""
    return np.random.Generator(np.random.Philox(seed)).random(count)
