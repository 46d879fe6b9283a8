"""Search with recall: thresholds by hand, values by enumeration of all offers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from llm_dec_pomdp.contrib.scouts.search import Search

searches = pytest.mark.parametrize(
    "search",
    [
        Search(scouts=1, offers=2, cost=0.25, looks=3),
        Search(scouts=2, offers=3, cost=0.4, looks=3),
        Search(scouts=1, offers=5, cost=1.0, looks=4),
        Search(scouts=3, offers=3, cost=0.1, looks=2),
        Search(scouts=2, offers=4, cost=5.0, looks=2),  # no look is worth its price
    ],
    ids=str,
)


def looks_of(search: Search) -> list[tuple[int, ...]]:
    """Return all equally likely offers of a look."""
    return list(itertools.product(range(search.offers), repeat=search.scouts))


def best_play(search: Search, seen: Sequence[tuple[int, ...]]) -> float:
    """Return the highest expected return after a history, by trying both decisions after every history."""
    now = max(itertools.chain([0], *seen)) - search.cost * len(seen)
    if len(seen) == search.looks:
        return now
    shown = looks_of(search)
    return max(now, sum(best_play(search, [*seen, offers]) for offers in shown) / len(shown))


def value_of_rule(search: Search, z: float, seen: Sequence[tuple[int, ...]] = ()) -> float:
    """Return the expected return of looking while the best offer is below z, over all offers."""
    best = max(itertools.chain([0], *seen))
    if best >= z or len(seen) == search.looks:
        return best - search.cost * len(seen)
    shown = looks_of(search)
    return sum(value_of_rule(search, z, [*seen, offers]) for offers in shown) / len(shown)


@searches
def test_dynamic_programming_finds_the_value_of_the_best_play(search: Search) -> None:
    assert search.value() == pytest.approx(best_play(search, []))


@searches
def test_the_threshold_rule_earns_that_value_and_no_other_threshold_more(search: Search) -> None:
    values = [value_of_rule(search, z / 2) for z in range(2 * search.offers)]
    assert value_of_rule(search, search.threshold()) == pytest.approx(max(values)) == pytest.approx(search.value())


@searches
def test_at_the_threshold_a_look_gains_its_cost(search: Search) -> None:
    z = search.threshold()
    assert sum(max(max(offers) - z, 0.0) for offers in looks_of(search)) / len(looks_of(search)) == pytest.approx(
        search.cost
    )


def test_thresholds_and_values_by_hand() -> None:
    """With two offers of 0 to 9, P(M = 7, 8, 9) = .15, .17, .19: the gain at 6 is 1.06, and falls by .51 per unit."""
    search = Search(scouts=2, offers=10, cost=1.0, looks=6)
    assert search.best_of_a_look()[7:] == pytest.approx([0.15, 0.17, 0.19])
    assert search.gain(6) == pytest.approx(1.06)
    assert search.threshold() == pytest.approx(6 + 0.06 / 0.51)
    coin = Search(scouts=1, offers=2, cost=0.25, looks=1)  # heads is worth 1: 0.25, 0.375, 0.4375, ... towards z
    assert [coin._replace(looks=n).value() for n in (0, 1, 2, 3)] == pytest.approx([0, 0.25, 0.375, 0.4375])
    assert coin.threshold() == pytest.approx(0.5)
    assert Search(scouts=1, offers=3, cost=4.0, looks=2).threshold() == pytest.approx(1.0 - 4.0)  # E[M] - cost


@searches
def test_the_value_of_a_fixed_number_of_looks_is_that_of_all_it_can_show(search: Search) -> None:
    for looks in range(3):
        shown = list(itertools.product(range(search.offers), repeat=search.scouts * looks))
        mean = sum(max(offers, default=0) for offers in shown) / len(shown)
        assert search.value_of_looks(looks) == pytest.approx(mean - search.cost * looks)


def test_the_best_fixed_number_of_looks() -> None:
    search = Search(scouts=2, offers=10, cost=1.0, looks=6)
    assert [round(search.value_of_looks(n), 4) for n in (0, 1, 2)] == [0, 5.15, 5.4667]  # 9 - .. k^(2n) / 10^(2n) - n
    assert search.best_fixed_looks() == 2
    assert search._replace(cost=7.0).best_fixed_looks() == 0
