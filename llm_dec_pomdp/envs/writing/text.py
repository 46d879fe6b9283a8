"""A text as the writing rewards read it: cut up once, looked at by all of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from itertools import pairwise

_SENTENCE_END = "."


@functools.cache
def lexicon() -> tuple[Mapping[str, tuple[str, ...]], frozenset[str]]:
    """Connectives by category (12 of them) and the stop words of the published formula."""
    raw = json.loads((resources.files("llm_dec_pomdp.data") / "connectives.json").read_text(encoding="utf-8"))
    connectives = {name: tuple(sorted(words, key=len)) for name, words in raw["connectives"].items()}
    return connectives, frozenset(raw["stop_words"])


class _Reading(dict[int, str]):
    """What a character is to a reader, for `str.translate`: part of a word, the end of a sentence, or a gap."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character.isalnum() or character == "_":
            return character
        return _SENTENCE_END if character in ".!?\n" else " "


_READING = _Reading()
_READING.update({code: _READING[code] for code in range(256)})


class Text:
    r"""A text and what is read off it.

    Attributes:
        raw: The text as it was given.
        words: Its words (`\w+`) in lower case.
        ends: How many words there are up to the end of each sentence; . ! ? and line ends end one.
        letters: How many characters its words have, together.
        vocabulary: The different words.
        stop_words: Those of them that are stop words.
        content_words: How many are none.
    """

    __slots__ = ("_bigrams", "content_words", "ends", "letters", "raw", "stop_words", "vocabulary", "words")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        words: list[str] = []
        ends: list[int] = []
        for sentence in raw.lower().translate(_READING).split(_SENTENCE_END):
            words += sentence.split()
            ends.append(len(words))
        self.words, self.ends = words, ends
        self.letters = len("".join(words))
        self.vocabulary = set(words)
        self.stop_words = self.vocabulary & lexicon()[1]
        self.content_words = len(self.vocabulary) - len(self.stop_words)
        self._bigrams: set[tuple[str, str]] | None = None

    @property
    def content(self) -> set[str]:
        """The different words that are no stop words."""
        return self.vocabulary - self.stop_words

    @property
    def bigrams(self) -> set[tuple[str, str]]:
        """The different pairs of neighbouring words; read off when first asked for."""
        if self._bigrams is None:
            self._bigrams = set(pairwise(self.words))
        return self._bigrams

    def five_grams(self) -> list[tuple[str, ...]]:
        """All runs of five words."""
        words = self.words
        return list(zip(words, words[1:], words[2:], words[3:], words[4:], strict=False))
