"""Learning rates of a run: in words, and whether its policies survive the first updates."""

from __future__ import annotations

from collections.abc import Mapping

from ..types import grouped

UPDATES = 10  # the first ones, which are watched
JUMP = 0.5  # of the surprisal of a text with the update that it is for, in nats a token; what learns moves by far less
FALL = 0.5  # of distinct-2: below this share of its first value texts repeat themselves


def in_words(rates: Mapping[str, float]) -> str:
    """Learning rates by agent as a short text."""
    by_rate = grouped(rates, lambda agent: rates[agent])
    if not rates:
        return "learning rate unknown"
    if len(by_rate) == 1:
        return f"learning rate {next(iter(by_rate)):g}"
    return "learning rates " + ", ".join(f"{rate:g} ({', '.join(agents)})" for rate, agents in by_rate.items())


class Watch:
    """Looks for policies that the first updates ruin: an update moves them far, or their texts repeat themselves."""

    def __init__(self) -> None:
        self._first = 0.0  # distinct-2
        self._left = UPDATES

    def look(self, metrics: Mapping[str, float], rates: Mapping[str, float]) -> str:
        """What is wrong, and what to do; "" where nothing is, or where it was said before.

        Args:
            metrics: What the learner reported of a step: the `rise` of surprisal (`algorithms.updater`) and
                `distinct_2` (`algorithms.diagnostics`), where it has them.
            rates: Learning rates of the agents that learn.
        """
        rise, share = metrics.get("rise", 0.0), metrics.get("distinct_2", 0.0)
        self._first = self._first or share
        if not self._left or not any(rates.values()):
            return ""
        self._left -= 1
        found: list[str] = []
        if rise > JUMP:
            before = metrics.get("surprisal", 0.0)
            found.append(
                f"an update raised the surprisal of its own texts from {before:.2f} to {before + rise:.2f} nats a token"
            )
        if "distinct_2" in metrics and share < FALL * self._first:
            found.append(f"distinct-2 of the texts fell from {self._first:.2f} to {share:.2f}")
        if not found:
            return ""
        self._left = 0
        return (
            f"{' and '.join(found)}: {in_words(rates)} may ruin what the model knew; try "
            f"learning_rate={max(rates.values()) / 10:g}"
        )
