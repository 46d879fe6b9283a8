"""The gated reward of the writing tasks (arXiv:2508.04652 and its released experiments).

Levels are gated: the first one that fails ends the sum.

    structure 0.5  ->  coordination 0..1 (length ratio)  ->  vocabulary 0..0.5  ->  style 0..1

What differs between the tasks is a `WritingFormula`; every constant of the published formulas stands in one of those.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources

from ...types import Score

COMPONENTS = ("structure", "coordination", "vocabulary", "coherence", "consistency")
DIAGNOSTICS = ("words_first", "words_second", "length_ratio", "vocabulary_ratio", "connective_categories", "jaccard")
_WORD = re.compile(r"\b\w+\b")


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
        words: Fewest and most whitespace-separated words of either text.
        length_ratio: chars(second) / chars(first).
        vocabulary_ratio: unique words(second) / unique words(first).
        connectives_in_both: Count connectives in both texts joined without a separator, else in the second only.
        jaccard_cap: Jaccard similarity of the word sets (without stop words) that earns the full part.
        connectives: How many of the connective categories a text uses.
    """

    words: tuple[int, int]
    length_ratio: Band
    vocabulary_ratio: Band
    connectives_in_both: bool
    jaccard_cap: float
    connectives: Callable[[str], float]


@functools.cache
def lexicon() -> tuple[Mapping[str, tuple[str, ...]], frozenset[str]]:
    """Connectives by category (12 of them) and the stop words of the published formula."""
    raw = json.loads((resources.files("llm_dec_pomdp.data") / "connectives.json").read_text(encoding="utf-8"))
    connectives = {name: tuple(sorted(words, key=len)) for name, words in raw["connectives"].items()}
    return connectives, frozenset(raw["stop_words"])


def score(first: str, second: str, formula: WritingFormula) -> Score:
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


def _climb(first: str, second: str, formula: WritingFormula, parts: dict[str, float], facts: dict[str, float]) -> str:
    """Fill in `parts` and `facts` level by level; returns the level that ended the sum, "" for none."""
    fewest, most = formula.words
    facts["words_first"], facts["words_second"] = counts = len(first.split()), len(second.split())
    if not all(fewest <= count <= most for count in counts):
        return "structure"
    parts["structure"] = 0.5

    facts["length_ratio"] = len(second) / len(first)
    coordination = formula.length_ratio(facts["length_ratio"])
    if coordination is None:
        return "coordination"
    parts["coordination"] = coordination

    words_1, words_2 = words(first), words(second)
    facts["vocabulary_ratio"] = len(words_2) / len(words_1) if words_1 else 0.0
    vocabulary = formula.vocabulary_ratio(facts["vocabulary_ratio"]) if words_1 else None
    if vocabulary is None:
        return "vocabulary"
    parts["vocabulary"] = 0.5 * vocabulary

    facts["connective_categories"] = formula.connectives(first + second if formula.connectives_in_both else second)
    facts["jaccard"] = jaccard(words_1, words_2)
    parts["coherence"] = 0.4 * connective_part(facts["connective_categories"])
    parts["consistency"] = 0.6 * min(facts["jaccard"], formula.jaccard_cap) / formula.jaccard_cap
    return ""


def words(text: str) -> set[str]:
    """The different words of a text, lower-cased, stop words kept."""
    return set(_WORD.findall(text.lower()))


def categories_as_substrings(text: str) -> float:
    """How many connective categories occur in the lower-cased text, as plain substrings (v0)."""
    lowered = text.lower()
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


def jaccard(words_1: set[str], words_2: set[str]) -> float:
    """Jaccard similarity of two word sets without stop words; 1 when both are empty."""
    _, stop_words = lexicon()
    content_1, content_2 = words_1 - stop_words, words_2 - stop_words
    union = len(content_1 | content_2)
    return len(content_1 & content_2) / union if union else 1.0


TLDR = WritingFormula(
    words=(8, 256),
    length_ratio=Band(1.1, 1.6, 3.2, 5.0),
    vocabulary_ratio=Band(1.3, 2.0, math.inf, math.inf),
    connectives_in_both=False,
    jaccard_cap=0.03,
    connectives=categories_as_substrings,
)
ARXIV = WritingFormula(
    words=(128, 256),
    length_ratio=Band(0.8, 1.3, 1.6, 2.0),
    vocabulary_ratio=Band(0.5, 0.7, 1.3, 1.7),
    connectives_in_both=True,
    jaccard_cap=0.23,
    connectives=categories_as_substrings,
)
ARXIV_PAPER_LENGTH_RATIO = Band(0.8, 1.0, 1.3, 1.5)
