"""What the published writing rewards do not look at, and v1 does: is it a text, about the source, in own words?

Five properties between 0 and 1, each a linear ramp between two measured values; natural texts lie on the full side of
all of them. The reward of v1 is the gated formula times their product.

| property | measured | 0 at | 1 at |
|---|---|---|---|
| relevance | share of a text's content words that occur in the source | 0.15 | 0.30 |
| variety | different bigrams / bigrams of a text | 0.50 | 0.80 |
| originality | share of a text's 5-grams that stand in the source | 0.90 | 0.40 |
| independence | share of the first text's 5-grams that stand in the second | 0.90 | 0.40 |
| grammar | share of neighbouring function words in a clause that are neighbours in real text | 0.50 | 0.66 |
| grammar, too | share of function words | 0.12 | 0.22 |

For a property of each text the lower of the two counts. Words are compared by their first five letters for relevance, a
plain stemmer. The ramps were set on reference pairs of the embedded train rows (full side) and on pairs of other rows,
shuffled and copied texts (zero side); `tests/envs/test_degenerate.py` holds the table of strategies.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Sequence, Set
from importlib import resources
from itertools import pairwise

from . import reward

PROPERTIES = ("relevance", "variety", "originality", "independence", "grammar")
_WORD = re.compile(r"\w+")
_WORD_OR_BREAK = re.compile(r"\w+|[^\w\s'’]|\n")
_SENTENCE = re.compile(r"[.!?\n]+")
_STEM = 5
_PRIOR = 2  # neighbours that a text is given for free, so that short texts are not judged on one pair


def properties(first: str, second: str, source: str) -> dict[str, float]:
    """The five properties of two texts about a source, each in [0, 1]."""
    first, second = first.lower(), second.lower()
    words_1, words_2 = _WORD.findall(first), _WORD.findall(second)
    known, phrases = _source(source)
    return {
        "relevance": min(_ramp(_share_in(_stems(w), known), 0.15, 0.30) for w in (words_1, words_2)),
        "variety": min(_ramp(_variety(w), 0.50, 0.80) for w in (words_1, words_2)),
        "originality": min(_ramp(_share_in(_grams(w, 5), phrases), 0.90, 0.40) for w in (words_1, words_2)),
        "independence": _ramp(_share_in(_grams(words_1, 5), set(_grams(words_2, 5))), 0.90, 0.40),
        "grammar": min(_grammar(first, words_1), _grammar(second, words_2)),
    }


def factor(found: dict[str, float]) -> float:
    """What the reward is multiplied by: the product of the properties."""
    return math.prod(found.values())


def categories_as_words(text: str) -> float:
    """How many connective categories a text uses, at word boundaries and with diminishing returns per sentence.

    The k-th new category of a sentence counts 1 / 2^(k-1), so a list of connectives earns little more than one.
    """
    seen: set[str] = set()
    count = 0.0
    for sentence in _SENTENCE.split(text.lower()):
        new = _categories_in(_WORD.findall(sentence)) - seen
        count += sum(0.5**k for k in range(len(new)))
        seen |= new
    return count


def _categories_in(words: list[str]) -> set[str]:
    """Categories of the connectives in a sentence."""
    by_first_word = _connectives()
    found: set[str] = set()
    for position, word in enumerate(words):
        for phrase, category in by_first_word.get(word, ()):
            if words[position : position + len(phrase)] == phrase:
                found.add(category)
    return found


@functools.cache
def _connectives() -> dict[str, list[tuple[list[str], str]]]:
    """Connectives as words, each with its category, by first word; some belong to two categories."""
    index: dict[str, list[tuple[list[str], str]]] = {}
    for category, phrases in reward.lexicon()[0].items():
        for phrase in map(_WORD.findall, phrases):
            index.setdefault(phrase[0], []).append((phrase, category))
    return index


@functools.cache
def _known_neighbours() -> frozenset[tuple[str, str]]:
    """Pairs of function words that follow each other in real text, from `data/function_word_pairs.txt`."""
    text = (resources.files("llm_dec_pomdp.data") / "function_word_pairs.txt").read_text(encoding="utf-8")
    return frozenset((first, second) for first, second in map(str.split, text.splitlines()))


def function_word_pairs(text: str) -> list[tuple[str, str]]:
    """Pairs of function words that stand beside each other in a clause of a lower-cased text."""
    _, stop_words = reward.lexicon()
    tokens = _WORD_OR_BREAK.findall(text)  # a break is no function word, so no pair spans it
    return [pair for pair in pairwise(tokens) if pair[0] in stop_words and pair[1] in stop_words]


def _grammar(text: str, words: Sequence[str]) -> float:
    _, stop_words = reward.lexicon()
    pairs = function_word_pairs(text)
    known = sum(pair in _known_neighbours() for pair in pairs)
    order = _ramp((known + _PRIOR) / (len(pairs) + _PRIOR), 0.50, 0.66)
    return order * _ramp(sum(word in stop_words for word in words) / max(len(words), 1), 0.12, 0.22)


@functools.lru_cache(maxsize=256)
def _source(text: str) -> tuple[frozenset[object], frozenset[object]]:
    """Stems and 5-grams of a source; the texts of a group share one."""
    words = _WORD.findall(text.lower())
    return frozenset(_stems(words)), frozenset(_grams(words, 5))


def _stems(words: Iterable[str]) -> list[str]:
    _, stop_words = reward.lexicon()
    return [word[:_STEM] for word in words if word not in stop_words]


def _grams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[i:] for i in range(n)), strict=False))


def _variety(words: Sequence[str]) -> float:
    bigrams = _grams(words, 2)
    return len(set(bigrams)) / len(bigrams) if bigrams else 1.0


def _share_in(found: Sequence[object], known: Set[object]) -> float:
    return sum(item in known for item in found) / len(found) if found else 0.0


def _ramp(x: float, zero: float, one: float) -> float:
    """0 at `zero`, 1 at `one`, linear between, flat beyond; either may be the larger."""
    return min(1.0, max(0.0, (x - zero) / (one - zero)))
