"""How well the words of a text follow each other: a model of word classes, counted in real text.

A stop word is a class of its own, and so is each of the 150 other words that occur most often; a number is `#`, any
other word is the longest of some endings that it has, and the beginning and end of a sentence is `.`. With n(a, b) how
often class b followed class a in the embedded train rows, n(a) and n(b) how often either stood there and N all pairs,
the association of the two is

    ln((n(a, b) + 1/2) / (n(a) n(b) / N + 1/2)),

0 where they follow each other as often as by chance. `scripts/build_word_class_pairs.py` counts anew.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Collection, Set
from importlib import resources
from itertools import pairwise

from .text import Text

_ENDINGS = sorted(
    "ings ing ed ly tion tions ity ness ment ments er ers al ive ous able ic es s e y".split(), key=len, reverse=True
)
_BOUNDARY = "."  # of a sentence
_KEPT = 100_000  # words whose class is kept


def word_class(word: str, own: Set[str]) -> str:
    """The class of a word, given the words that are classes of their own."""
    if word in own:
        return word
    if word[0].isdigit():
        return "#"
    return "-" + next((ending for ending in _ENDINGS if word.endswith(ending) and len(word) > len(ending) + 1), "")


class WordClasses(dict[str, str]):
    """The class of a word, worked out when it is first asked for, given the words that are classes of their own."""

    def __init__(self, own: Set[str]) -> None:
        super().__init__()
        self._own = own

    def __missing__(self, word: str) -> str:
        if len(self) > _KEPT:
            self.clear()
        self[word] = number = word_class(word, self._own)
        return number

    def of(self, text: Text) -> list[str]:
        """The classes of the words of a text, with a boundary before, between and after its sentences."""
        whole = [_BOUNDARY]
        for sentence in text.sentences():
            whole += map(self.__getitem__, sentence)
            whole.append(_BOUNDARY)
        return whole


class _Associations(dict[tuple[str, str], float]):
    """The association of two classes, worked out from their counts when it is first asked for."""

    def __init__(self, counts: Counter[tuple[str, str]]) -> None:
        super().__init__()
        self._counts, self._total = counts, counts.total()
        self._before: Counter[str] = Counter()
        self._after: Counter[str] = Counter()
        for (first, second), count in counts.items():
            self._before[first] += count
            self._after[second] += count

    def __missing__(self, pair: tuple[str, str]) -> float:
        by_chance = self._before[pair[0]] * self._after[pair[1]] / self._total
        self[pair] = value = math.log((self._counts[pair] + 0.5) / (by_chance + 0.5))
        return value


@functools.cache
def _counted() -> tuple[WordClasses, _Associations]:
    """From `data/word_class_pairs.txt`: a line is two classes and how often the second followed the first."""
    text = (resources.files("llm_dec_pomdp.data") / "word_class_pairs.txt").read_text(encoding="utf-8")
    counts = Counter({(first, second): int(count) for first, second, count in map(str.split, text.splitlines())})
    own = {first for first, _ in counts if first[0] not in "-#."}
    return WordClasses(own), _Associations(counts)


def association(*texts: Text) -> float:
    """The mean association of what follows each other in texts, in nats; 0 for texts without a word."""
    classes, associations = _counted()
    pairs = [pair for text in texts for pair in pairwise(classes.of(text))]
    return sum(map(associations.__getitem__, pairs)) / max(len(pairs), 1)


def association_of_pairs(pairs: Collection[tuple[str, str]]) -> float:
    """The mean association of two words each, in nats; 0 for no pairs."""
    classes, associations = _counted()
    return sum(associations[classes[first], classes[second]] for first, second in pairs) / max(len(pairs), 1)
