"""A ready tool: BM25 search in passages, with the package `bm25s`; results are the same on every machine.

`bm25s` computes the scores with its defaults (Lucene's idf, k1 = 1.5, b = 0.75; arXiv:2407.03618). This module selects
the best passages, so that passages with equal scores are in corpus order.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .function import Kit, function

_WORD = re.compile(r"(?u)\b\w\w+\b")  # as in `bm25s.tokenize`
QUERY_WORDS = 64  # longest query; further words are ignored


class Index:
    """An index of the texts of passages."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s  # slow, and only needed for search

        tokens = bm25s.tokenize(list(texts), show_progress=False)
        self._vocabulary: dict[str, int] = dict(tokens.vocab)  # type: ignore[union-attr]
        self._scores = bm25s.BM25(backend="numpy") if self._vocabulary else None
        if self._scores is not None:
            self._scores.index(tokens, show_progress=False)

    def best(self, query: str, count: int, among: npt.NDArray[np.bool_] | None = None) -> tuple[int, ...]:
        """Return the indices of the `count` best passages, the best first.

        Passages without a word of the query are left out. Stop words and words of one letter are ignored. `among` is a
        mask of the passages that may be returned, shape (passages,); None for all.
        """
        known = self._vocabulary
        words = [match.group() for _, match in zip(range(QUERY_WORDS), _WORD.finditer(query.lower()), strict=False)]
        ids = [known[word] for word in dict.fromkeys(words) if word in known]
        if not ids or self._scores is None:
            return ()
        scores: npt.NDArray[np.float32] = self._scores.get_scores_from_ids(ids)
        if among is not None:
            scores = np.where(among, scores, 0.0)
        if count < len(scores):
            least = np.partition(scores, -count)[-count]
            places = np.flatnonzero(scores >= max(least, np.finfo(np.float32).tiny))
        else:
            places = np.flatnonzero(scores > 0)
        order = np.argsort(-scores[places], kind="stable")[:count]
        return tuple(places[order].tolist())


def search(passages: Sequence[str], *, shown: int = 5) -> Kit:
    """Return a kit with the tools `search` and `read` on passages.

    Args:
        passages: Texts of the passages; agents refer to a passage by its index from 0.
        shown: Number of passages that a search returns.

    Raises:
        ValueError: `passages` is empty.
    """
    if not passages:
        raise ValueError("passages is empty; give at least one text")
    collection = Passages(tuple(passages), shown)
    return Kit("search", (function(collection.search), function(collection.read)), bounded=True)


class Passages(NamedTuple):
    """The tools `search` and `read` with their passages; see the function `search`."""

    texts: tuple[str, ...]
    shown: int

    def _listed(self, places: Iterable[int]) -> str:
        return "\n".join(f"[{place}] {self.texts[place]}" for place in places)

    def search(self, query: str) -> str:
        """Search for passages.

        Args:
            query: Words to look for.
        """
        return self._listed(_index_of(self.texts).best(query, self.shown)) or "Nothing has these words."

    def read(self, number: int) -> str:
        """Read a passage and its neighbours.

        Args:
            number: Of the passage, in brackets before it.
        """
        if not 0 <= number < len(self.texts):
            raise ValueError(f"there is no passage {number}; read a number that a search gave")
        return self._listed(range(max(0, number - 1), min(len(self.texts), number + 2)))


@functools.lru_cache(maxsize=64)
def _index_of(texts: tuple[str, ...]) -> Index:
    return Index(texts)
