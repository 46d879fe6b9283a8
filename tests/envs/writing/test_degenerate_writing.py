"""What the writing tasks pay for texts that tell nothing; figures of all: docs/results/archive/rewards.md."""

from __future__ import annotations

import pytest
from writing_strategies import NAMES, STRATEGIES, share

LIMIT = 0.40
PAID_BY_V0 = {
    "tldr": ("one sentence repeated", "list of connectives", "copy of the source", "something else"),
    "arxiv": ("copy of the source", "list of connectives", "something else"),
}
SEEN_BY_WORDS = (
    "one sentence repeated",
    "list of connectives",
    "list of connectives with commas",
    "connectives as sentences",
    "copy of the source",
    "copy with commas",
    "copy of its beginning twice",
    "filled up with dashes",
    "something else",
    "half about something else",
    "empty elaboration",
    "empty summary",
    "first is the second's beginning",
    "second is the first repeated",
)


@pytest.mark.parametrize("strategy", SEEN_BY_WORDS)
@pytest.mark.parametrize("name", NAMES)
def test_v1_pays_less_than_40_percent_for_what_words_show(name: str, strategy: str) -> None:
    assert share(name, "v1", STRATEGIES[strategy]) < LIMIT


@pytest.mark.parametrize(
    ("name", "strategy"), [(name, strategy) for name, paid in PAID_BY_V0.items() for strategy in paid]
)
def test_v0_pays_for_what_v1_does_not(name: str, strategy: str) -> None:
    assert share(name, "v0", STRATEGIES[strategy]) > LIMIT


@pytest.mark.parametrize("strategy", sorted(STRATEGIES.keys() - set(SEEN_BY_WORDS)))
@pytest.mark.parametrize("name", NAMES)
def test_v1_pays_for_what_only_meaning_shows(name: str, strategy: str) -> None:
    """As the page says; who trains on v1 should know."""
    assert share(name, "v1", STRATEGIES[strategy]) > LIMIT
