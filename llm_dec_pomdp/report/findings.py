"""Findings of a report about methods and pairs of methods, computed once for all output formats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..evaluation.comparisons import (
    Scores,
    difference,
    improvement_probability,
    interquartile_interval,
    performance_profile,
)
from ..evaluation.intervals import LEAST_SEEDS, LEVEL, Estimate, Interval, holm
from ..evaluation.sections import means
from ..evaluation.sections.influence import alarm
from ..results.lines import MethodResult, by_environment, lines
from ..results.runs import CellRecord
from ..types import grouped
from .sections import rows_of

THRESHOLDS = np.linspace(0.0, 100.0, 51)


@dataclass(frozen=True)
class Comparison:
    """A pair of methods on an environment.

    Attributes:
        ours, theirs: Results of the two methods.
        points: Return of ours minus return of theirs, in percentage points. The interval is not corrected.
        p: p-value of the difference, Holm-corrected over the pairs of the environment; NaN if there is no verdict.
        pairs: Number of pairs in the correction.
    """

    ours: MethodResult
    theirs: MethodResult
    points: Estimate
    p: float
    pairs: int

    @property
    def verdict(self) -> str:
        """The verdict on the difference, see `verdict`."""
        return verdict(self.points, self.p)

    @property
    def sentence(self) -> str:
        """The difference in a sentence, which starts with the better method, with its p-value or verdict."""
        ahead, behind = (self.ours, self.theirs) if self.points.mean >= 0 else (self.theirs, self.ours)
        seeds = "one seed" if self.points.seeds == 1 else f"{self.points.seeds} seeds"
        tested = "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"
        worth = tested if self.verdict in ("more", "less") else self.verdict.partition(" below")[0]
        points = f"+{abs(self.points.mean):.1f} points"
        return f"{ahead.name} {points} over {behind.name} on {ahead.environment}, {seeds}: {worth}"


def verdict(points: Estimate, p: float) -> str:
    """Return the verdict on a difference: "more", "less", "not distinguishable", or that there are too few seeds.

    Args:
        points: The difference.
        p: Its corrected p-value; NaN if nothing was tested.
    """
    if math.isnan(p):
        return f"no verdict below {LEAST_SEEDS} seeds"
    if p >= LEVEL:
        return "not distinguishable"
    return "more" if points.mean > 0 else "less"


@dataclass(frozen=True)
class Overall:
    """A method over all environments, as in arXiv:2108.13264; intervals need three seeds.

    Attributes:
        name: Name of the method.
        iqm: Interquartile mean of the return over runs, in percent, with its interval over seeds.
        profile: Share of runs above each of `THRESHOLDS`, with the low and the high end of its interval.
        improvement: Probability that a run of this method has a higher return than a run of another one, by the name
            of the other. It has no interval: a few seeds do not determine the width if every run of one method is
            better than every run of the other.
    """

    name: str
    iqm: Interval
    profile: Scores
    improvement: Mapping[str, float]


@dataclass(frozen=True)
class Findings:
    """All findings about some runs.

    Attributes:
        lines: Results of the methods, ordered by environment.
        comparisons: All pairs of methods of an environment that share tasks.
        overall: The methods that ran on all environments.
    """

    lines: Sequence[MethodResult]
    comparisons: Sequence[Comparison]
    overall: Sequence[Overall]

    def on(self, environment: str) -> list[Comparison]:
        """Return the pairs of one environment, whose p-values are corrected together."""
        return [pair for pair in self.comparisons if pair.ours.environment == environment]

    def headlines(self) -> list[str]:
        """Return a sentence for each environment, and then the warnings of `alarms`.

        The sentence compares the best learner with the best method that does not learn, or else the best two methods.
        Environments whose methods share no task have no sentence.
        """
        pairs = (_foremost(group, self.on(environment)) for environment, group in by_environment(self.lines).items())
        return [*(pair.sentence for pair in pairs if pair), *self.alarms()]

    def alarms(self) -> list[str]:
        """Return warnings about rollbacks, and about agents of trained teams without influence or with empty texts.

        The latter use means over seeds; see `evaluation.sections.influence`.
        """
        repeated = [
            f"Warning, {line.name} on {line.environment}, seed {entry.cell.seed}: training diverged at update "
            f"{back['at']}, and was repeated from update {back['to']} on with a third of the learning rate"
            for line in self.lines
            for entry in line.entries
            for back in entry.rollbacks()
        ]
        doubts = ((line, alarm(means(line.measured("influence")))) for line in self.lines if line.learns)
        return repeated + [f"Warning, {line.name} on {line.environment}: {doubt}" for line, doubt in doubts if doubt]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "lines": [
                {
                    "environment": line.environment,
                    "method": line.name,
                    "return_percent": _measured(line.value),
                    "by_seed": {
                        e.cell.seed: s.return_percent.mean for e, s in zip(line.entries, line.summaries, strict=True)
                    },
                    "sections": _sections(line),
                }
                for line in self.lines
            ],
            "differences": [
                {
                    "environment": pair.ours.environment,
                    "method": pair.ours.name,
                    "against": pair.theirs.name,
                    "points": _measured(pair.points),
                    "p": pair.points.p,
                    "p_holm": pair.p,
                    "pairs": pair.pairs,
                    "verdict": pair.verdict,
                }
                for pair in self.comparisons
            ],
            "over_environments": [
                {
                    "method": method.name,
                    "interquartile_mean": asdict(method.iqm),
                    "improvement": dict(method.improvement),
                }
                for method in self.overall
            ],
        }


def _foremost(group: Sequence[MethodResult], pairs: Sequence[Comparison]) -> Comparison | None:
    """Return the pair of methods for the sentence of an environment; None if they share no task."""
    best = sorted(group, key=lambda line: -line.value.mean)
    learners, others = ([line for line in best if line.learns is learns] for learns in (True, False))
    chosen = (learners[0], others[0]) if learners and others else tuple(best[:2])
    return next((pair for pair in pairs if pair.ours in chosen and pair.theirs in chosen), None)


def _sections(line: MethodResult) -> dict[str, dict[str, Any]]:
    """Return the values of a method in the sections of the report, by section and column."""
    return {
        name: {column: asdict(value) if isinstance(value, Interval) else value for column, value in row.items()}
        for name, row in rows_of(line).items()
    }


def _measured(value: Estimate) -> dict[str, Any]:
    names = ("mean", "low", "high", "seeds", "tasks", "over")
    return {name: getattr(value, name) for name in names}


def findings(entries: Sequence[CellRecord]) -> Findings:
    """Return the findings about some runs.

    Raises:
        RunError: Two runs have the same configuration and the same seed.
    """
    reported = lines(entries)
    compared = [pair for group in by_environment(reported).values() for pair in compare(group)]
    return Findings(reported, compared, over_environments(reported))


def compare(group: Sequence[MethodResult]) -> list[Comparison]:
    """Compare all pairs of methods of one environment that share tasks; correct the p-values for their number."""
    measured = [(a, b, difference(a.returns, b.returns)) for a, b in itertools.combinations(group, 2)]
    shared = [(a, b, points) for a, b, points in measured if points is not None]
    corrected = holm([points.p for _, _, points in shared])
    tested = sum(not math.isnan(p) for p in corrected)
    return [Comparison(a, b, points, p, tested) for (a, b, points), p in zip(shared, corrected, strict=True)]


def over_environments(reported: Sequence[MethodResult]) -> list[Overall]:
    """Return the methods that ran on all environments with the same number of seeds; [] if fewer than two did."""
    environments = list(by_environment(reported))
    by_name = grouped(reported, lambda line: line.name)
    scores = {name: _scores(group) for name, group in by_name.items() if len(group) == len(environments)}
    complete = {name: table for name, table in scores.items() if table is not None}
    return [_overall(name, complete) for name in complete] if len(complete) > 1 else []


def _scores(group: Sequence[MethodResult]) -> Scores | None:
    """Return returns of shape (seeds, environments); None if environments differ in their number of seeds."""
    columns = [[summary.return_percent.mean for summary in line.summaries] for line in group]
    if len({len(column) for column in columns}) > 1:
        return None
    return np.array(list(zip(*columns, strict=True)), dtype=np.float64)


def _overall(name: str, scores: Mapping[str, Scores]) -> Overall:
    ours = scores[name]
    improvement = {other: improvement_probability(ours, theirs) for other, theirs in scores.items() if other != name}
    return Overall(name, interquartile_interval(ours), performance_profile(ours, THRESHOLDS), improvement)
