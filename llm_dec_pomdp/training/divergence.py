"""Warnings if the first updates damage a policy or cannot train it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

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


class Finding(NamedTuple):
    """A finding of the monitor: a warning with its remedy, and the first update that may have damaged the weights.

    `damaged` is None if the finding is that updates have no signal, since then no weights are damaged.
    """

    text: str
    damaged: int | None


@dataclass(frozen=True, slots=True)
class MonitorState:
    """The state of a monitor, which is saved in checkpoints.

    Attributes:
        first: The first value of distinct-2.
        seen: Number of steps that reported distinct-2.
        warned: Whether damage was found.
        silent: Number of first updates, all without a signal.
    """

    first: float = 0.0
    seen: int = 0
    warned: bool = False
    silent: int = 0


class DivergenceMonitor:
    """Monitor of the first updates, which may damage policies (large steps, repeated words) or train nothing.

    Args:
        state: The state of the monitor at the checkpoint from which a run continues.
    """

    def __init__(self, state: MonitorState = MonitorState()) -> None:  # frozen
        self.state = state

    def check(self, number: int, metrics: Mapping[str, float], rates: Mapping[str, float]) -> Finding | None:
        """Return a finding, each kind once per run; None if there is none.

        Args:
            number: Number of the step, from 1.
            metrics: Metrics of the step from the learner. `kl_estimate` (`algorithms.updater`), `distinct_2` and
                `groups_without_signal` (`algorithms.diagnostics`) are used, and `staleness` of the training loop.
            rates: Learning rates of the trained agents.
        """
        if self.state.silent == number - 1 and metrics.get("groups_without_signal") == 1:
            self.state = replace(self.state, silent=number)
            if number == SILENT:
                return Finding(
                    f"no group had a signal in the first {SILENT} updates: all episodes of a task have equal returns, "
                    "so that nothing was trained; add an imitation stage (stages), larger groups (group_size) or "
                    "easier tasks",
                    None,
                )
        findings: list[str] = []
        damaged = number
        if (rise := metrics.get("kl_estimate", 0.0)) > JUMP:
            before = f" from {metrics['surprisal']:.2f}" if "surprisal" in metrics else ""
            findings.append(
                f"an update raised the surprisal of its own completions{before} by {rise:.2f} nats per token"
            )
        if "distinct_2" in metrics:
            share = metrics["distinct_2"]
            first = self.state.first or share
            self.state = replace(self.state, first=first, seen=self.state.seen + 1)
            if self.state.seen <= STEPS and share < FALL * first:
                findings.append(f"distinct_2 fell from {first:.2f} to {share:.2f}")
                damaged = number - 1 - int(metrics.get("staleness", 0.0))  # version of the weights that sampled
        if not findings or self.state.warned or not any(rates.values()):
            return None
        self.state = replace(self.state, warned=True)
        return Finding(
            f"{' and '.join(findings)}: {describe_learning_rates(rates)} may damage the model; try "
            f"learning_rate={max(rates.values()) / 10:g}",
            damaged,
        )
