"""Words of a text, as the writing rewards count them."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from importlib import resources

_WORD = re.compile(r"\w+")


@functools.cache
def lexicon() -> tuple[Mapping[str, tuple[str, ...]], frozenset[str]]:
    """Return the connectives by category (12 categories) and the stop words of the published formula."""
    raw = json.loads((resources.files("llm_dec_pomdp.data") / "connectives.json").read_text(encoding="utf-8"))
    connectives = {name: tuple(sorted(words, key=len)) for name, words in raw["connectives"].items()}
    return connectives, frozenset(raw["stop_words"])


def words_of(raw: str) -> list[str]:
    r"""Return the words (`\w+`) of a text in lower case."""
    return _WORD.findall(raw.lower())


class Text:
    """A text and its words."""

    def __init__(self, raw: str) -> None:
        self.words = words_of(raw)  # in lower case
        self.vocabulary = set(self.words)
        self.content = self.vocabulary - lexicon()[1]  # without stop words

    def grams(self, n: int) -> list[tuple[str, ...]]:
        """Return all sequences of n consecutive words."""
        return list(zip(*(self.words[start:] for start in range(n)), strict=False))
