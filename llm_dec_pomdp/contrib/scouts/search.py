"""The optimal search for an offer: every look costs, and the best offer so far is kept.

A look shows n offers, each uniform on 0, ..., V - 1, of which only the best one M counts. So a look is one box of
Weitzman's problem with the prize M: P(M <= m) = ((m + 1) / V)^n. There are at most L looks. A search without an offer
has value 0.

    z solves E[(M - z)+] = cost; the best rule looks while the best offer so far is below z   (Weitzman 1979)
    W_k(b) = max(b, E[W_(k-1)(max(b, M))] - cost), W_0(b) = b; its value is W_L(0)             (dynamic programming)

z is the same at every look, because all looks have the same distribution. Source: M. L. Weitzman, "Optimal search for
the best alternative", Econometrica 47 (1979).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


class Search(NamedTuple):
    """A search problem and its solution."""

    scouts: int  # n, offers per look
    offers: int  # V, different offers
    cost: float  # cost of a look, in the unit of the offers; above 0
    looks: int  # L, maximum number of looks

    def best_of_a_look(self) -> list[float]:
        """Return P(M = m) for m = 0, ..., V - 1."""
        at_most = [(m / self.offers) ** self.scouts for m in range(self.offers + 1)]
        return [high - low for low, high in pairwise(at_most)]

    def gain(self, best: float) -> float:
        """Return E[(M - best)+], the expected improvement of the best offer by a look."""
        return sum(chance * max(offer - best, 0.0) for offer, chance in enumerate(self.best_of_a_look()))

    def threshold(self) -> float:
        """Return z, at which the expected gain of a look is its cost; negative if the first look gains less."""
        for k in reversed(range(self.offers)):
            if self.gain(k) >= self.cost:  # linear from k to k + 1, with the slope -P(M > k)
                return k + (self.gain(k) - self.cost) / sum(self.best_of_a_look()[k + 1 :])
        return self.gain(0) - self.cost  # below all offers E[(M - z)+] = E[M] - z

    def value(self) -> float:
        """Return W_L(0), the expected return of the best rule."""
        chances = self.best_of_a_look()
        worth = [float(best) for best in range(self.offers)]  # W_0
        for _ in range(self.looks):
            worth = [
                max(best, sum(p * worth[max(best, m)] for m, p in enumerate(chances)) - self.cost)
                for best in range(self.offers)
            ]
        return worth[0]

    def value_of_looks(self, looks: int) -> float:
        """Return the expected return of a fixed number of looks: E[best of n * looks offers] - cost * looks."""
        below = [(m / self.offers) ** (self.scouts * looks) for m in range(1, self.offers)]
        return sum(1 - chance for chance in below) - self.cost * looks  # E[max] = sum over m >= 1 of P(max >= m)

    def best_fixed_looks(self) -> int:
        """Return the fixed number of looks with the highest expected return; the smallest in case of a tie."""
        return max(range(self.looks + 1), key=self.value_of_looks)
