"""The reward of the writing tasks (arXiv:2508.04652 and its released experiments).

Levels are checked in order, and the first one that fails ends the sum:

    structure 0.5  ->  coordination 0..1 (length ratio)  ->  vocabulary 0..0.5  ->  style 0..1

Style is the sum of the components coherence and consistency. The constants of each task are a `WritingFormula`.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass

from ...types import Score
from .text import lexicon, words_of

COMPONENTS = ("structure", "coordination", "vocabulary", "coherence", "consistency")
DIAGNOSTICS = ("words_first", "words_second", "length_ratio", "vocabulary_ratio", "connective_categories", "jaccard")


@dataclass(frozen=True, slots=True)
class Band:
    """A trapezoid: 0 at `low`, 1 from `full_low` to `full_high`, 0 at `high`; the level fails outside."""

    low: float
    full_low: float
    full_high: float
    high: float

    def __call__(self, x: float) -> float | None:
        """Return the height at `x`; None outside `[low, high]`, where the level fails."""
        if not self.low <= x <= self.high:
            return None
        if x < self.full_low:
            return (x - self.low) / (self.full_low - self.low)
        if x <= self.full_high:
            return 1.0
        return 1.0 - (x - self.full_high) / (self.high - self.full_high)


@dataclass(frozen=True, slots=True)
class WritingFormula:
    """The constants of one writing task.

    Attributes:
        words: Lowest and highest number of words of each text.
        length_ratio: length(second) / length(first).
        vocabulary_ratio: unique words(second) / unique words(first).
        connectives_in_both: True to count connectives in both texts, False to count them in the second.
        jaccard_cap: Jaccard similarity of the word sets (without stop words) from which on consistency is full.
    """

    words: tuple[int, int]
    length_ratio: Band
    vocabulary_ratio: Band
    connectives_in_both: bool
    jaccard_cap: float


class Pair(ABC):
    """Measurements of the text of agent_0 (summary, background) and of agent_1 (elaboration, method)."""

    @abstractmethod
    def words(self) -> tuple[int, int]:
        """Return the number of words of each text."""

    @abstractmethod
    def lengths(self) -> tuple[int, int]:
        """Return the length of each text in characters."""

    @abstractmethod
    def vocabularies(self) -> tuple[int, int]:
        """Return the number of different words of each text."""

    @abstractmethod
    def connective_categories(self, both: bool) -> float:
        """Return the number of connective categories in both texts, or in the second text only."""

    @abstractmethod
    def contents(self) -> tuple[set[str], set[str]]:
        """Return the set of words of each text, without stop words."""

    def jaccard(self) -> float:
        """Return the Jaccard similarity of the word sets without stop words; 1 if both are empty."""
        first, second = self.contents()
        shared = len(first & second)
        union = len(first) + len(second) - shared
        return shared / union if union else 1.0


def score(pair: Pair, formula: WritingFormula) -> Score:
    """Return the joint reward of two texts, 0 to 3; components and diagnostics after a failed level are 0."""
    parts: dict[str, float] = dict.fromkeys(COMPONENTS, 0.0)
    facts: dict[str, float] = dict.fromkeys(DIAGNOSTICS, 0.0)
    stopped_at = _climb(pair, formula, parts, facts)
    return Score(sum(parts.values()), parts, facts, notes={"stopped_at": stopped_at} if stopped_at else {})


def _climb(pair: Pair, formula: WritingFormula, parts: dict[str, float], facts: dict[str, float]) -> str:
    """Fill in `parts` and `facts` level by level; return the level that failed, "" if none did."""
    fewest, most = formula.words
    facts["words_first"], facts["words_second"] = first, second = pair.words()
    if not (fewest <= first <= most and fewest <= second <= most):
        return "structure"
    parts["structure"] = 0.5

    first, second = pair.lengths()
    facts["length_ratio"] = second / first
    coordination = formula.length_ratio(facts["length_ratio"])
    if coordination is None:
        return "coordination"
    parts["coordination"] = coordination

    first, second = pair.vocabularies()
    facts["vocabulary_ratio"] = second / first if first else 0.0
    vocabulary = formula.vocabulary_ratio(facts["vocabulary_ratio"]) if first else None
    if vocabulary is None:
        return "vocabulary"
    parts["vocabulary"] = 0.5 * vocabulary

    facts["connective_categories"] = pair.connective_categories(formula.connectives_in_both)
    facts["jaccard"] = pair.jaccard()
    parts["coherence"] = 0.4 * connective_part(facts["connective_categories"])
    parts["consistency"] = 0.6 * min(facts["jaccard"], formula.jaccard_cap) / formula.jaccard_cap
    return ""


def multiplied(score: Score, factors: Mapping[str, float]) -> Score:
    """Return a score with each component multiplied by all factors, and the factors among its diagnostics."""
    factor = math.prod(factors.values())
    parts = {name: value * factor for name, value in score.components.items()}
    return Score(sum(parts.values()), parts, {**score.diagnostics, **factors}, score.notes)


def ramp(x: float, zero: float, full: float) -> float:
    """Return the linear ramp from 0 at `zero` to 1 at `full`, clipped to [0, 1]; `zero` may exceed `full`."""
    return min(1.0, max(0.0, (x - zero) / (full - zero)))


class PublishedPair(Pair):
    """Two texts as the released experiments measure them (v0)."""

    def __init__(self, first: str, second: str) -> None:
        self.first, self.second = first, second

    @functools.cached_property
    def _vocabularies(self) -> tuple[set[str], set[str]]:
        """The set of words of each text; computed only when a level needs it."""
        return set(words_of(self.first)), set(words_of(self.second))

    def words(self) -> tuple[int, int]:
        """Return the number of words of each text, which are separated by white space."""
        return len(self.first.split()), len(self.second.split())

    def lengths(self) -> tuple[int, int]:
        """Return the length of each text in characters, with white space."""
        return len(self.first), len(self.second)

    def vocabularies(self) -> tuple[int, int]:
        r"""Return the number of different words (`\w+`) of each text."""
        first, second = self._vocabularies
        return len(first), len(second)

    def connective_categories(self, both: bool) -> float:
        """Return the number of categories that occur as substrings of the lower-cased texts, which are concatenated."""
        first, second = self._vocabularies
        if both:
            return categories_as_substrings(self.first + self.second, first | second)
        return categories_as_substrings(self.second, second)

    def contents(self) -> tuple[set[str], set[str]]:
        """Return the set of words of each text, without stop words."""
        first, second = self._vocabularies
        stop_words = lexicon()[1]
        return first - stop_words, second - stop_words


def categories_as_substrings(text: str, vocabulary: Set[str] = frozenset()) -> int:
    """Return the number of connective categories that occur as substrings of the lower-cased text (v0).

    Args:
        text: The text.
        vocabulary: Words that the text is known to contain, for speed.
    """
    categories = _categories_by_word()
    present: set[str] = set()
    for word in categories.keys() & vocabulary:
        present |= categories[word]
    lowered = text.lower()
    for category, phrases in lexicon()[0].items():  # short phrases first: they are found soonest
        if category not in present and any(map(lowered.__contains__, phrases)):
            present.add(category)
    return len(present)


@functools.cache
def _categories_by_word() -> Mapping[str, set[str]]:
    """Return the categories of every connective that is a single word."""
    categories: dict[str, set[str]] = {}
    for category, phrases in lexicon()[0].items():
        for phrase in phrases:
            if phrase.isalpha():
                categories.setdefault(phrase, set()).add(category)
    return categories


def connective_part(n: float) -> float:
    """Return T = min(1, 0.4 + min(0.6, 0.05 (n - 1))) for n connective categories; 0 for fewer than one."""
    return min(1.0, 0.4 + min(0.6, 0.05 * (n - 1))) if n >= 1 else 0.0


TLDR = WritingFormula(
    words=(8, 256),
    length_ratio=Band(1.1, 1.6, 3.2, 5.0),
    vocabulary_ratio=Band(1.3, 2.0, math.inf, math.inf),
    connectives_in_both=False,
    jaccard_cap=0.03,
)
ARXIV = WritingFormula(
    words=(128, 256),
    length_ratio=Band(0.8, 1.3, 1.6, 2.0),
    vocabulary_ratio=Band(0.5, 0.7, 1.3, 1.7),
    connectives_in_both=True,
    jaccard_cap=0.23,
)
ARXIV_PAPER_LENGTH_RATIO = Band(0.8, 1.0, 1.3, 1.5)
