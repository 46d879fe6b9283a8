"""BM25 over passages, by the package `bm25s`: one index for a corpus, the same answer on every machine.

`bm25s` gives the scores (with its defaults, Lucene's idf, k1 = 1.5, b = 0.75; arXiv:2407.03618). The best passages are
chosen here, so that passages of equal score come in the order of the corpus.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_WORD = re.compile(r"(?u)\b\w\w+\b")  # as in `bm25s.tokenize`
QUERY_WORDS = 64  # longest query; further words are ignored


class Index:
    """An index of the texts of passages."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s  # only who searches needs it

        tokens = bm25s.tokenize(list(texts), show_progress=False)
        self._vocabulary: dict[str, int] = dict(tokens.vocab)  # type: ignore[union-attr]
        self._scores = bm25s.BM25(backend="numpy") if self._vocabulary else None
        if self._scores is not None:
            self._scores.index(tokens, show_progress=False)

    def best(self, query: str, count: int, among: npt.NDArray[np.bool_] | None = None) -> tuple[int, ...]:
        """Indices of the `count` passages that fit best, the best first, without those that have no word of the query.

        Stop words and words of one letter are ignored. `among` says which passages may be chosen; None: all.
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
