"""A judge that counts pairs of words: as plain a language model as there is, to test what judges are asked."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from llm_dec_pomdp.types import Likelihood, Message


class Counts:
    """log p of a word after another one: from pairs of the prefix, and evenly over `size` words."""

    def __init__(self, size: int = 30) -> None:
        self.size = size
        self.asked: list[list[tuple[str | tuple[Message, ...], str]]] = []

    @property
    def name(self) -> str:
        return f"counts@{self.size}"

    def log_likelihoods(self, prefixes: Sequence[str | tuple[Message, ...]], texts: Sequence[str]) -> list[Likelihood]:
        self.asked.append(list(zip(prefixes, texts, strict=True)))
        return [self._of(str(prefix), text) for prefix, text in zip(prefixes, texts, strict=True)]

    def _of(self, prefix: str, text: str) -> Likelihood:
        words = text.lower().split()
        pairs, single = Counter(pairwise(prefix.lower().split())), Counter(prefix.lower().split())
        nats = tuple(
            math.log((pairs[a, b] + 3 * single[b] + 1) / (single[a] + 3 * single.total() + self.size))
            for a, b in pairwise(["", *words])
        )
        starts = tuple(word.start() for word in re.finditer(r"\S+", text))
        return Likelihood(nats, starts=starts, cut=len(words) > 200)
