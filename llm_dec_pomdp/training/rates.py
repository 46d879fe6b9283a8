"""Learning rates of a run: in words, and whether the policies survive their first updates."""

from __future__ import annotations

from collections.abc import Mapping

from ..types import grouped

UPDATES = 10  # the first ones, which are watched
JUMP = 1.0  # of the surprisal, in nats: more with one update, or up since the first step, and the policy is another one
FALL = 0.5  # of distinct-2: below this share of its first value texts repeat themselves
LEAST = 200  # tokens of a step, whose surprisal has a standard error of about 0.2 nats


def in_words(rates: Mapping[str, float]) -> str:
    """Learning rates by agent as a short text."""
    by_rate = grouped(rates, lambda agent: rates[agent])
    if not rates:
        return "learning rate unknown"
    if len(by_rate) == 1:
        return f"learning rate {next(iter(by_rate)):g}"
    return "learning rates " + ", ".join(f"{rate:g} ({', '.join(agents)})" for rate, agents in by_rate.items())


class Watch:
    """Looks for a policy that its first updates ruin: its surprisal jumps, or its texts repeat themselves.

    The numbers are those of `algorithms.diagnostics`. Learners that do not report them, since their texts are those of
    others, are not watched. A policy that learns gets surer too, but by less with each update.
    """

    def __init__(self) -> None:
        self._first: Mapping[str, float] = {}
        self._last: Mapping[str, float] = {}
        self._left = UPDATES

    def look(self, metrics: Mapping[str, float], rates: Mapping[str, float]) -> str:
        """What is wrong after the updates so far, and what to do; "" where nothing is, or where it was said before.

        Args:
            metrics: What the learner reported of this step.
            rates: Learning rates of the agents that learn.
        """
        if not {"surprisal", "distinct_2"} <= set(metrics) or metrics.get("tokens", 0.0) < LEAST or not self._left:
            return ""
        self._left -= bool(self._last)
        self._first, last, self._last = self._first or metrics, self._last or metrics, metrics
        found = "; ".join(filter(None, (_jump(self._first, last, metrics), _fall(self._first, metrics))))
        if not found or not any(rates.values()):
            return ""
        self._left = 0
        return (
            f"{found}: {in_words(rates)} may ruin what the model knew; try learning_rate={max(rates.values()) / 10:g}"
        )


def _jump(first: Mapping[str, float], last: Mapping[str, float], now: Mapping[str, float]) -> str:
    """How the surprisal jumped, in words; "" where it did not."""
    value = now["surprisal"]
    for before, since in ((last, "the update before"), (first, "the first update")):
        change = value - before["surprisal"]
        if change > JUMP or (before is last and change < -JUMP):
            return f"surprisal went from {before['surprisal']:.2f} to {value:.2f} nats a token since {since}"
    return ""


def _fall(first: Mapping[str, float], now: Mapping[str, float]) -> str:
    """How distinct-2 fell, in words; "" where it did not."""
    before, value = first["distinct_2"], now["distinct_2"]
    return f"distinct-2 fell from {before:.2f} to {value:.2f}" if value < FALL * before else ""
