"""What the writing tasks pay for texts that tell nothing; figures of all: docs/results/archive/rewards.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from writing_strategies import STRATEGIES, share

LIMIT = 0.40
PAID_BY_V0 = {
    "tldr": ("one sentence repeated", "list of connectives", "copy of the source", "something else"),
    "arxiv": ("copy of the source", "list of connectives", "something else"),
}
ANY_ORDER = (
    "random source words",
    "shuffled source",
    "shuffled source with commas",
    "shuffled reference",
    "shuffled reference with commas",
    "filler after every 2nd word",
)
ONLY_MEANING_SHOWS = {
    "tldr": (
        *ANY_ORDER,
        "every 4th word deleted",
        "every 3rd word deleted",
        "bag of content words",
        "one fixed text and 50 copied words",
        "one fixed text and 50 content words",
        "neighbours swapped",
        "template, source words in order",
        "template, source words at random",
    ),
    "arxiv": ANY_ORDER,
}


def each(strategies: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    return [(name, strategy) for name, listed in strategies.items() for strategy in listed]


SEEN_BY_WORDS = each({name: sorted(STRATEGIES.keys() - paid) for name, paid in ONLY_MEANING_SHOWS.items()})


@pytest.mark.parametrize(("name", "strategy"), SEEN_BY_WORDS)
def test_v1_pays_less_than_40_percent_for_what_words_show(name: str, strategy: str) -> None:
    assert share(name, "v1", STRATEGIES[strategy]) < LIMIT


@pytest.mark.parametrize(("name", "strategy"), each(PAID_BY_V0))
def test_v0_pays_for_what_v1_does_not(name: str, strategy: str) -> None:
    assert share(name, "v0", STRATEGIES[strategy]) > LIMIT


@pytest.mark.parametrize(("name", "strategy"), each(ONLY_MEANING_SHOWS))
def test_v1_pays_for_what_only_meaning_shows(name: str, strategy: str) -> None:
    """As the page says; who trains on v1 should know."""
    assert share(name, "v1", STRATEGIES[strategy]) > LIMIT
