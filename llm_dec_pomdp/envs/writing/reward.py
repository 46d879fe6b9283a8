"""The gated reward of the writing tasks (arXiv:2508.04652 and its released experiments).

Levels are gated: the first one that fails ends the sum.

    structure 0.5  ->  coordination 0..1 (length ratio)  ->  vocabulary 0..0.5  ->  style 0..1

What differs between the tasks is a `WritingFormula`; every constant of the published formulas stands in one of those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...types import Score
from .text import Text, lexicon

COMPONENTS = ("structure", "coordination", "vocabulary", "coherence", "consistency")
DIAGNOSTICS = ("words_first", "words_second", "length_ratio", "vocabulary_ratio", "connective_categories", "jaccard")


@dataclass(frozen=True, slots=True)
class Band:
    """A trapezoid: 0 at `low`, 1 from `full_low` to `full_high`, 0 at `high`, and nothing at all beyond."""

    low: float
    full_low: float
    full_high: float
    high: float

    def __call__(self, x: float) -> float | None:
        """The height at `x`; None outside `[low, high]`, where the gate is closed."""
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
        words: Fewest and most words of either text.
        length_ratio: length(second) / length(first).
        vocabulary_ratio: unique words(second) / unique words(first).
        connectives_in_both: Count connectives in both texts, else in the second only.
        jaccard_cap: Jaccard similarity of the word sets (without stop words) that earns the full part.
        connectives: How many of the connective categories the texts use.
        count: How many words a text has.
        length: How long it is, in characters.
    """

    words: tuple[int, int]
    length_ratio: Band
    vocabulary_ratio: Band
    connectives_in_both: bool
    jaccard_cap: float
    connectives: Callable[..., float]
    count: Callable[[Text], int]
    length: Callable[[Text], int]


def score(first: Text, second: Text, formula: WritingFormula) -> Score:
    """The joint reward of two texts, 0 to 3.

    Args:
        first: Text of agent_0 (summary, background).
        second: Text of agent_1 (elaboration, method).
        formula: The constants of the task.

    Returns:
        Components and diagnostics as named above; what lies behind the level that ended the sum is 0.
    """
    parts: dict[str, float] = dict.fromkeys(COMPONENTS, 0.0)
    facts: dict[str, float] = dict.fromkeys(DIAGNOSTICS, 0.0)
    stopped_at = _climb(first, second, formula, parts, facts)
    return Score(sum(parts.values()), parts, facts, notes={"stopped_at": stopped_at} if stopped_at else {})


def _climb(first: Text, second: Text, formula: WritingFormula, parts: dict[str, float], facts: dict[str, float]) -> str:
    """Fill in `parts` and `facts` level by level; returns the level that ended the sum, "" for none."""
    fewest, most = formula.words
    facts["words_first"], facts["words_second"] = counts = formula.count(first), formula.count(second)
    if not all(fewest <= count <= most for count in counts):
        return "structure"
    parts["structure"] = 0.5

    facts["length_ratio"] = formula.length(second) / formula.length(first)
    coordination = formula.length_ratio(facts["length_ratio"])
    if coordination is None:
        return "coordination"
    parts["coordination"] = coordination

    facts["vocabulary_ratio"] = len(second.vocabulary) / len(first.vocabulary) if first.vocabulary else 0.0
    vocabulary = formula.vocabulary_ratio(facts["vocabulary_ratio"]) if first.vocabulary else None
    if vocabulary is None:
        return "vocabulary"
    parts["vocabulary"] = 0.5 * vocabulary

    facts["connective_categories"] = formula.connectives(
        *((first, second) if formula.connectives_in_both else (second,))
    )
    facts["jaccard"] = jaccard(first, second)
    parts["coherence"] = 0.4 * connective_part(facts["connective_categories"])
    parts["consistency"] = 0.6 * min(facts["jaccard"], formula.jaccard_cap) / formula.jaccard_cap
    return ""


def words_between_spaces(text: Text) -> int:
    """How many words a text has, whatever stands between white space (v0)."""
    return len(text.raw.split())


def characters(text: Text) -> int:
    """How long a text is, white space included (v0)."""
    return len(text.raw)


def categories_as_substrings(*texts: Text) -> float:
    """How many connective categories occur in the lower-cased texts, joined without a separator, as substrings (v0)."""
    lowered = "".join(text.raw for text in texts).lower()
    count = 0
    for words in lexicon()[0].values():  # short ones first: they are found soonest
        for word in words:
            if word in lowered:
                count += 1
                break
    return count


def connective_part(n: float) -> float:
    """T = min(1, 0.4 + min(0.6, 0.05 (n - 1))), n = connective categories; 0 for less than one."""
    return min(1.0, 0.4 + min(0.6, 0.05 * (n - 1))) if n >= 1 else 0.0


def jaccard(first: Text, second: Text) -> float:
    """Jaccard similarity of the word sets of two texts without stop words; 1 when both are empty."""
    shared = len(first.vocabulary & second.vocabulary) - len(first.stop_words & second.stop_words)
    union = first.content_words + second.content_words - shared
    return shared / union if union else 1.0


TLDR = WritingFormula(
    words=(8, 256),
    length_ratio=Band(1.1, 1.6, 3.2, 5.0),
    vocabulary_ratio=Band(1.3, 2.0, math.inf, math.inf),
    connectives_in_both=False,
    jaccard_cap=0.03,
    connectives=categories_as_substrings,
    count=words_between_spaces,
    length=characters,
)
ARXIV = WritingFormula(
    words=(128, 256),
    length_ratio=Band(0.8, 1.3, 1.6, 2.0),
    vocabulary_ratio=Band(0.5, 0.7, 1.3, 1.7),
    connectives_in_both=True,
    jaccard_cap=0.23,
    connectives=categories_as_substrings,
    count=words_between_spaces,
    length=characters,
)
ARXIV_PAPER_LENGTH_RATIO = Band(0.8, 1.0, 1.3, 1.5)
