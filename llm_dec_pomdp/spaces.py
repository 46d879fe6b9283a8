"""Text spaces.

`gymnasium.spaces.Text` needs a fixed character set and samples noise. Language models write any unicode text.
"""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np

_WORDS = (
    "the team said that some of us could not see the whole plan so we wrote a short note and hoped it would be enough "
    "for them to start while others kept looking at the map asking where that road might end def aux return x 42 0.5"
).split()


class FreeText(gymnasium.spaces.Space[str]):
    """Every string of at most `max_length` characters.

    Samples are short and printable: up to 40 words of a small list.

    Args:
        max_length: Longest allowed text, in characters.
        seed: Seed of `sample`.
    """

    def __init__(self, max_length: int = 1_000_000, seed: int | np.random.Generator | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length is {max_length}; a text space needs at least 1 character")
        self.max_length = max_length
        super().__init__(shape=None, dtype=str, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return a random text of 1 to 40 words; raise ValueError if a mask or probability is given."""
        if mask is not None or probability is not None:
            raise ValueError("FreeText.sample takes neither mask nor probability: leave them out")
        picks: list[int] = self.np_random.integers(len(_WORDS), size=int(self.np_random.integers(1, 41))).tolist()
        return " ".join(_WORDS[i] for i in picks)[: self.max_length]

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a string of at most `max_length` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __deepcopy__(self, memo: dict[int, Any]) -> FreeText:
        """Copy only the generator: environments are copied often, and no other part of a space changes."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin._np_random = copy.deepcopy(self._np_random, memo)
        return twin

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no array of fixed size; use the wrappers for numeric libraries."""
        return False

    def __repr__(self) -> str:
        return f"FreeText(max_length={self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText) and other.max_length == self.max_length
