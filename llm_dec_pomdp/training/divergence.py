"""Warnings if the first updates damage a policy or cannot train it."""

from __future__ import annotations

from collections.abc import Mapping

from ..types import grouped

STEPS = 10  # number of first steps in which distinct-2 is checked; only first updates report `kl_estimate`
JUMP = 0.5  # KL estimate of an update above which a run warns, in nats per token; useful updates have far less
FALL = 0.5  # share of its first value below which distinct-2 shows that texts repeat words
SILENT = 5  # number of first updates without a signal after which a run warns


def describe_learning_rates(rates: Mapping[str, float]) -> str:
    """Return learning rates by agent as a short text."""
    by_rate = grouped(rates, lambda agent: rates[agent])
    if not rates:
        return "learning rate unknown"
    if len(by_rate) == 1:
        return f"learning rate {next(iter(by_rate)):g}"
    return "learning rates " + ", ".join(f"{rate:g} ({', '.join(agents)})" for rate, agents in by_rate.items())


class DivergenceMonitor:
    """Monitor of the first updates, which may damage policies (large steps, repeated words) or train nothing."""

    def __init__(self) -> None:
        self._first = 0.0  # distinct-2
        self._seen = 0  # steps that reported it
        self._warned = False
        self._silent = 0  # number of first updates, all without a signal

    def check(self, number: int, metrics: Mapping[str, float], rates: Mapping[str, float]) -> str:
        """Return a warning with its remedy, once per run; "" if there is none.

        Args:
            number: Number of the step, from 1.
            metrics: Metrics of the step from the learner. `kl_estimate` (`algorithms.updater`), `distinct_2` and
                `groups_without_signal` (`algorithms.diagnostics`) are used.
            rates: Learning rates of the trained agents.
        """
        if self._silent == number - 1 and metrics.get("groups_without_signal") == 1:
            self._silent += 1
            if self._silent == SILENT:
                return (
                    f"no group had a signal in the first {SILENT} updates: all episodes of a task have equal returns, "
                    "so that nothing was trained; add an imitation stage (stages), larger groups (group_size) or "
                    "easier tasks"
                )
        findings: list[str] = []
        if (rise := metrics.get("kl_estimate", 0.0)) > JUMP:
            before = f" from {metrics['surprisal']:.2f}" if "surprisal" in metrics else ""
            findings.append(
                f"an update raised the surprisal of its own completions{before} by {rise:.2f} nats per token"
            )
        if "distinct_2" in metrics:
            share = metrics["distinct_2"]
            self._first, self._seen = self._first or share, self._seen + 1
            if self._seen <= STEPS and share < FALL * self._first:
                findings.append(f"distinct_2 fell from {self._first:.2f} to {share:.2f}")
        if not findings or self._warned or not any(rates.values()):
            return ""
        self._warned = True
        return (
            f"{' and '.join(findings)}: {describe_learning_rates(rates)} may damage the model; try "
            f"learning_rate={max(rates.values()) / 10:g}"
        )
