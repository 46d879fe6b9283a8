"""Learning rates of a run: in words, and whether its policies survive the first updates."""

from __future__ import annotations

from collections.abc import Mapping

from ..types import grouped

STEPS = 10  # the first ones that report distinct-2, in which it is watched; `rise` is reported of first updates alone
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
        self._seen = 0  # steps that reported it
        self._warned = False

    def look(self, metrics: Mapping[str, float], rates: Mapping[str, float]) -> str:
        """What is wrong, and what to do; "" where nothing is, or where it was said before.

        Args:
            metrics: What the learner reported of a step: the `rise` of surprisal (`algorithms.updater`) and
                `distinct_2` (`algorithms.diagnostics`), where it has them.
            rates: Learning rates of the agents that learn.
        """
        findings: list[str] = []
        if (rise := metrics.get("rise", 0.0)) > JUMP:
            before = f" from {metrics['surprisal']:.2f}" if "surprisal" in metrics else ""
            findings.append(f"an update raised the surprisal of its own texts{before} by {rise:.2f} nats a token")
        if "distinct_2" in metrics:
            share = metrics["distinct_2"]
            self._first, self._seen = self._first or share, self._seen + 1
            if self._seen <= STEPS and share < FALL * self._first:
                findings.append(f"distinct-2 of the texts fell from {self._first:.2f} to {share:.2f}")
        if not findings or self._warned or not any(rates.values()):
            return ""
        self._warned = True
        return (
            f"{' and '.join(findings)}: {in_words(rates)} may ruin what the model knew; try "
            f"learning_rate={max(rates.values()) / 10:g}"
        )
