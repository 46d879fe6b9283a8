"""What the published writing rewards do not look at, and v1 does: is it a text, about the source, in own words?

Five properties between 0 and 1, each a linear ramp between two measured values; natural texts of a few sentences lie on
the full side. The reward of v1 is the gated formula times their product.

| property | measured | 0 at | 1 at |
|---|---|---|---|
| relevance | share of a text's content words that occur in the source | 0.15 | 0.27 |
| variety | different bigrams / bigrams of a text | 0.50 | 0.80 |
| originality | share of a text's 5-grams that stand in the source | 0.90 | 0.40 |
| independence | share of the first text's 5-grams that stand in the second | 0.90 | 0.40 |
| grammar | share of neighbouring function words that are neighbours in real text | 0.50 | 0.60 |
| grammar, too | share of function words among the words | 0.06 | 0.15 |

For a property of each text the lower of the two counts; both of grammar are multiplied. Words, function words and their
neighbours count once however often they are said, and punctuation is not looked at, so commas hide nothing. Words are
compared by their first five letters for relevance.

What this cannot see: a copy of the source without every fourth word, with three connectives put before it: 73 % on
tldr-v1, mean over its 120 posts.

The ramps were set on the embedded reference pairs (full side) and on pairs of other rows, shuffled and copied texts
(zero side); `tests/envs/test_degenerate.py` holds the table of strategies.
"""

from __future__ import annotations

import functools
import math
from importlib import resources
from itertools import compress, product
from operator import itemgetter

from . import reward
from .text import Text, lexicon, words_of

PROPERTIES = ("relevance", "variety", "originality", "independence", "grammar")
_stem = itemgetter(slice(5))  # the letters of a word that are compared for relevance: a plain stemmer
_PRIOR = 2  # neighbours that a text is given for free, so that short texts are not judged on one pair
_OWN = 0.40  # share of 5-grams that a text may have in common with another one


class HardenedPair(reward.Pair):
    """Two texts about a source as v1 measures them."""

    def __init__(self, first: str, second: str, source: str) -> None:
        self.first, self.second, self._source = Text(first), Text(second), _source(source)

    def words(self) -> tuple[int, int]:
        """How many words the texts have; signs between spaces are none."""
        return len(self.first.words), len(self.second.words)

    def lengths(self) -> tuple[int, int]:
        """Characters of the words, so that neither signs nor spaces make a text longer."""
        return self.first.letters, self.second.letters

    def vocabularies(self) -> tuple[int, int]:
        """How many different words the texts have."""
        return len(self.first.vocabulary), len(self.second.vocabulary)

    def connective_categories(self, both: bool) -> float:
        """How many connective categories the texts use, as whole words and with diminishing returns per sentence."""
        return categories_as_words(*((self.first, self.second) if both else (self.second,)))

    def contents(self) -> tuple[set[str], set[str]]:
        """The different words of the texts that are no stop words."""
        return self.first.content, self.second.content

    def properties(self) -> dict[str, float]:
        """The five properties, each in [0, 1]."""
        first, second, source = self.first, self.second, self._source
        return {
            "relevance": min(_relevance(first, source), _relevance(second, source)),
            "variety": min(_variety(first), _variety(second)),
            "originality": min(_own_words(first, source.text), _own_words(second, source.text)),
            "independence": _own_words(first, second),
            "grammar": min(_grammar(first), _grammar(second)),
        }


def factor(found: dict[str, float]) -> float:
    """What the reward is multiplied by: the product of the properties."""
    return math.prod(found.values())


def categories_as_words(*texts: Text) -> float:
    """How many connective categories texts use, as whole words and with diminishing returns per sentence.

    The k-th new category of a sentence counts 1 / 2^(k-1), so a list of connectives earns little more than one.
    """
    index = _connectives()
    seen: set[str] = set()
    count = 0.0
    for text in texts:
        words, ends = text.words, iter(text.ends)
        start, end, worth = 0, 0, 1.0  # of the sentence
        for position in compress(range(len(words)), map(index.__contains__, words)):
            for phrase, size, before, category in index[words[position]]:
                begin = position - before
                if category in seen or (size > 1 and words[begin : begin + size] != phrase):
                    continue
                while position >= end:
                    start, end, worth = end, next(ends), 1.0
                if start <= begin and begin + size <= end:
                    seen.add(category)
                    count += worth
                    worth /= 2
    return count


@functools.cache
def _connectives() -> dict[str, list[tuple[list[str], int, int, str]]]:
    """By its most telling word every connective: its words, their number, how many stand before it, its category."""
    connectives, stop_words = lexicon()
    index: dict[str, list[tuple[list[str], int, int, str]]] = {}
    for category, phrases in connectives.items():
        for phrase in map(words_of, phrases):
            telling = max(phrase, key=lambda word: (word not in stop_words, len(word)))
            index.setdefault(telling, []).append((phrase, len(phrase), phrase.index(telling), category))
    return index


@functools.cache
def _known_neighbours() -> frozenset[tuple[str, str]]:
    """Pairs of function words that follow each other in real text, from `data/function_word_pairs.txt`."""
    text = (resources.files("llm_dec_pomdp.data") / "function_word_pairs.txt").read_text(encoding="utf-8")
    return frozenset((first, second) for first, second in map(str.split, text.splitlines()))


@functools.cache
def _pairs_of_function_words() -> frozenset[tuple[str, str]]:
    return frozenset(product(lexicon()[1], lexicon()[1]))


def function_word_pairs(text: Text) -> set[tuple[str, str]]:
    """The different pairs of function words that stand beside each other."""
    return text.bigrams & _pairs_of_function_words()


class _Source:
    """A source text, its content words and their stems; the texts of a group share one."""

    def __init__(self, raw: str) -> None:
        self.text = Text(raw)
        self.content = self.text.content
        self.stems = set(map(_stem, self.content))


_source = functools.lru_cache(maxsize=256)(_Source)


def _relevance(text: Text, source: _Source) -> float:
    enough = 0.27
    content = text.content
    known = len(content & source.content)
    if known < enough * len(content):  # else other forms of the same words add nothing
        known += sum(map(source.stems.__contains__, map(_stem, content - source.content)))
    return _ramp(known / max(len(content), 1), 0.15, enough)


def _variety(text: Text) -> float:
    bigrams = len(text.words) - 1
    return _ramp(len(text.bigrams) / bigrams, 0.50, 0.80) if bigrams > 0 else 1.0


def _own_words(text: Text, other: Text) -> float:
    """1 for a text that has few 5-grams in common with another one, 0 for one that has nearly all."""
    words = text.words
    every_fourth = zip(words[::4], words[1::4], strict=False)
    if 4 * sum(map(other.bigrams.__contains__, every_fourth)) <= _OWN * (len(words) - 4):
        return 1.0  # every 5-gram in common holds one of these bigrams, and each of those lies in four of them at most
    common = set(other.five_grams())
    grams = text.five_grams()
    return _ramp(sum(gram in common for gram in grams) / max(len(grams), 1), 0.90, _OWN)


def _grammar(text: Text) -> float:
    pairs = function_word_pairs(text)
    order = (len(pairs & _known_neighbours()) + _PRIOR) / (len(pairs) + _PRIOR)
    vocabulary = len(text.vocabulary)
    return _ramp(order, 0.50, 0.60) * _ramp((vocabulary - len(text.content)) / max(vocabulary, 1), 0.06, 0.15)


def _ramp(x: float, zero: float, one: float) -> float:
    """0 at `zero`, 1 at `one`, linear between, flat beyond; either may be the larger."""
    height = (x - zero) / (one - zero)
    return 0.0 if height < 0.0 else 1.0 if height > 1.0 else height
