"""pass@k, acc@k and coop@k: the best of k samples, for scores with parts "tests" and "cooperation"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...envs.base import TextDecPOMDP
from ...envs.coding.reward import CALLS_AUX, NO_WRAPPER
from ...types import Group, Score
from ..intervals import Interval, percent_interval
from ..metrics import final_scores, tests_passed
from . import Section

KS = (1, 3, 5, 10)


class BestOfK(Section):
    """Unbiased estimates in %, as means over tasks, for every k up to the smallest number of samples of a task."""

    title = "Best of k samples, unbiased, in %"

    def measure(self, env: TextDecPOMDP, groups: Sequence[Group]) -> Mapping[str, float | Interval]:
        """Return "pass@1" and so on, with their intervals over tasks."""
        if not {"tests", "cooperation"} <= set(env.facts.components):
            return {}
        return best_of_k(final_scores(groups))


def best_of_k(final: Sequence[Sequence[Score]]) -> dict[str, Interval]:
    """Return pass@k, acc@k and coop@k of the scores of each task."""
    ks = [k for k in KS if k <= min(map(len, final), default=0)]
    passed = {k: [pass_at_k(len(s), sum(tests_passed(score) == 1.0 for score in s), k) for s in final] for k in ks}
    accuracy = {k: [best_at_k(list(map(tests_passed, scores)), k) for scores in final] for k in ks}
    cooperation = {k: [best_at_k(list(map(_cooperation, scores)), k) for scores in final] for k in ks}
    return {
        f"{name}@{k}": percent_interval([100 * value for value in values])
        for name, by_k in (("pass", passed), ("acc", accuracy), ("coop", cooperation))
        for k, values in by_k.items()
    }


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the unbiased probability that at least one of k samples solves the task, from c solved among n >= k.

    1 - C(n-c, k) / C(n, k), arXiv:2107.03374, equation 1.
    """
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def best_at_k(values: Sequence[float], k: int) -> float:
    """Return the unbiased expected maximum of k values sampled without replacement from n >= k values.

    sum_i C(i-1, k-1) / C(n, k) x_(i) over the values in ascending order: x_(i) is the best of C(i-1, k-1) subsets.
    """
    ordered = sorted(values)
    weights = [math.comb(i, k - 1) / math.comb(len(ordered), k) for i in range(len(ordered))]
    return sum(weight * value for weight, value in zip(weights, ordered, strict=True))


def _cooperation(score: Score) -> float:
    return score.components["cooperation"] / (CALLS_AUX + NO_WRAPPER)
