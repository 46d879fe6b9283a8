"""The four properties by which v1 multiplies the published reward: texts about the source that are not copies.

Each property is linear between two values. All references have the value 1.

| property | measured | 0 at | 1 at |
|---|---|---|---|
| relevance | share of a text's content words that are in the source | 0.15 | 0.27 |
| variety | different bigrams / bigrams of a text | 0.50 | 0.80 |
| originality | share of a text's trigrams that are in the source | 0.40 | 0.30 |
| independence | share of the first text's trigrams that are in the second | 0.40 | 0.30 |

Of relevance, variety and originality the lower value of the two texts counts. The reward is the published reward times
the product of the properties. Relevance compares words by their first five letters, as a simple stemmer. No property
measures whether the words make sense, see docs/rewards.md.
"""

from __future__ import annotations

import functools

from .. import reward
from ..reward import ramp
from ..text import Text, lexicon

PROPERTIES: tuple[str, ...] = ("relevance", "variety", "originality", "independence")
_STEM = 5  # letters of a word that relevance compares


class WordPair(reward.Pair):
    """Measurements of two texts by words only, so that punctuation and spaces do not count."""

    def __init__(self, first: str, second: str) -> None:
        self.first, self.second = Text(first), Text(second)

    def words(self) -> tuple[int, int]:
        """Return the number of words of each text."""
        return len(self.first.words), len(self.second.words)

    def lengths(self) -> tuple[int, int]:
        """Return the total number of characters in the words of each of the two texts."""
        return sum(map(len, self.first.words)), sum(map(len, self.second.words))

    def vocabularies(self) -> tuple[int, int]:
        """Return the number of different words of each text."""
        return len(self.first.vocabulary), len(self.second.vocabulary)

    def connective_categories(self, both: bool) -> float:
        """Return the number of connective categories that occur as whole words."""
        return categories_as_words(*((self.first, self.second) if both else (self.second,)))

    def contents(self) -> tuple[set[str], set[str]]:
        """Return the set of words of each text, without stop words."""
        return self.first.content, self.second.content

    def properties(self, source: str) -> dict[str, float]:
        """Return the four properties of the texts, each in [0, 1]."""
        first, second, shown = self.first, self.second, _read(source)
        return {
            "relevance": min(_relevance(text, shown) for text in (first, second)),
            "variety": min(map(_variety, (first, second))),
            "originality": min(_own_words(text, shown) for text in (first, second)),
            "independence": _own_words(first, second),
        }


_read = functools.lru_cache(maxsize=256)(Text)  # the texts of a group share a source


def categories_as_words(*texts: Text) -> int:
    """Return the number of connective categories that occur in the texts as whole words."""
    spoken = [f" {' '.join(text.words)} " for text in texts]
    return sum(any(f" {p} " in words for p in phrases for words in spoken) for phrases in lexicon()[0].values())


def _relevance(text: Text, source: Text) -> float:
    known = {word[:_STEM] for word in source.content}
    return ramp(sum(word[:_STEM] in known for word in text.content) / max(len(text.content), 1), 0.15, 0.27)


def _variety(text: Text) -> float:
    bigrams = text.grams(2)
    return ramp(len(set(bigrams)) / len(bigrams), 0.50, 0.80) if bigrams else 1.0


def _own_words(text: Text, other: Text) -> float:
    grams, common = text.grams(3), set(other.grams(3))
    return ramp(sum(gram in common for gram in grams) / max(len(grams), 1), 0.40, 0.30)
