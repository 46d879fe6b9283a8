"""How the writing rewards read a text: which words it has, and where its sentences end."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
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

    def __init__(self, sentence_end: str) -> None:
        super().__init__()
        self._sentence_end = sentence_end
        self.update({code: self[code] for code in range(256)})

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character.isalnum() or character == "_":
            return character
        return self._sentence_end if character in ".!?\n" else " "


_WORDS, _SENTENCES = _Reading(" "), _Reading(_SENTENCE_END)


def words_of(raw: str) -> list[str]:
    r"""The words (`\w+`) of a text in lower case."""
    return raw.lower().translate(_WORDS).split()


class Text:
    """A text and what is read off it; . ! ? and line ends end a sentence."""

    __slots__ = ("_bigrams", "content", "ends", "letters", "vocabulary", "words")

    def __init__(self, raw: str) -> None:
        read = raw.lower().translate(_SENTENCES)
        self.words: list[str] = []  # in lower case
        self.ends: list[int] = []  # how many words there are up to the end of each sentence
        for sentence in read.split(_SENTENCE_END):
            self.words += sentence.split()
            self.ends.append(len(self.words))
        self.letters = len(read) - read.count(_SENTENCE_END) - read.count(" ")  # of all words together
        self.vocabulary = set(self.words)
        self.content = self.vocabulary - lexicon()[1]  # without stop words
        self._bigrams: set[tuple[str, str]] | None = None

    def sentences(self) -> Iterator[list[str]]:
        """The words of each sentence that has any."""
        start = 0
        for end in self.ends:
            if end > start:
                yield self.words[start:end]
                start = end

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
