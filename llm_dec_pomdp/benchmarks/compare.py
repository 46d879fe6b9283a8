"""Methods side by side: every seed of a method on an environment becomes one line, and lines are compared in pairs."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np

from .aggregate import (
    Difference,
    Scores,
    difference,
    improvement_probability,
    interquartile_mean,
    overall,
    performance_profile,
    stratified,
)
from .metrics import Interval, Summary
from .published import Published, published
from .runs import Entry, RunError
from .tracking import flat

_RESAMPLES = 400  # of the statistics over seeds and environments


@dataclass(frozen=True)
class Curve:
    """Test return while training, in % of the maximum, at the evaluations that all seeds have.

    Attributes:
        episodes: Training episodes before each evaluation, mean over the seeds (trees may end early).
        mean: Over the seeds.
        low, high: The range of the seeds, or the 95 % interval of a single one.
    """

    episodes: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Line:
    """All seeds of one configuration: a method with its options and training, on one environment, with one model.

    Attributes:
        environment, method, model: Their names in tables; the method with what tells it from others of its name.
        name: The method, with the model where a method has several on an environment.
        entries: Its finished cells, one per seed.
        value: Return in % of the maximum, over seeds and tasks.
        printed: What was published for it.
    """

    environment: str
    method: str
    model: str
    name: str
    entries: Sequence[Entry]
    value: Interval
    printed: Sequence[Published]

    @property
    def returns(self) -> Mapping[int, Mapping[str, float]]:
        """Return by seed and task."""
        return {entry.cell.seed: entry.returns() for entry in self.entries}

    @property
    def summaries(self) -> list[Summary]:
        """What was measured per seed."""
        return [entry.result.summary for entry in self.entries if entry.result is not None]

    def mean(self, number: Callable[[Summary], float]) -> float:
        """A number of the summary, mean over the seeds that have it."""
        values = [value for value in map(number, self.summaries) if not math.isnan(value)]
        return fmean(values) if values else math.nan

    def components(self) -> dict[str, Interval]:
        """Mean reward parts over seeds; with one seed the interval over its tasks, else the range of the seeds."""
        found: dict[str, Interval] = {}
        for name in self.summaries[0].components:
            parts = [summary.components[name] for summary in self.summaries if name in summary.components]
            means = [part.mean for part in parts]
            found[name] = parts[0] if len(parts) == 1 else Interval(fmean(means), min(means), max(means))
        return found

    def curve(self) -> Curve | None:
        """How the return rose; None where nothing was trained."""
        by_seed: list[dict[int, dict[str, Any]]] = [
            {point["step"]: point for point in points} for entry in self.entries if (points := entry.curve())
        ]
        common = sorted(set[int]().union(*by_seed).intersection(*by_seed))
        if not common:
            return None
        points = [[seed[step] for seed in by_seed] for step in common]
        columns = [[point["return_percent"] for point in column] for column in points]
        means = [[interval["mean"] for interval in column] for column in columns]
        alone = len(by_seed) == 1
        return Curve(
            [fmean(point["training_episodes"] for point in column) for column in points],
            [fmean(column) for column in means],
            [column[0]["low"] for column in columns] if alone else [min(column) for column in means],
            [column[0]["high"] for column in columns] if alone else [max(column) for column in means],
        )


def short(model: str) -> str:
    """A model's name without its folder."""
    return Path(model).name if model.endswith(".gguf") else model


def lines(entries: Sequence[Entry]) -> list[Line]:
    """The lines of all finished cells, environments outermost, in order.

    Raises:
        RunError: Two cells have the same configuration and the same seed.
    """
    named: dict[tuple[str, str, str], dict[str, dict[int, Entry]]] = {}
    for entry in entries:
        if entry.result is not None:
            key = (entry.environment, entry.method, short(entry.cell.model.name))
            configuration = json.dumps(entry.configuration, sort_keys=True)
            by_seed = named.setdefault(key, {}).setdefault(configuration, {})
            other = by_seed.setdefault(entry.cell.seed, entry)
            if other is not entry:
                raise RunError(
                    f"{str(other.folder)!r} and {str(entry.folder)!r} have the same configuration and the same seed; "
                    "report one of them"
                )
    grouped = [
        (environment, name, model, by_seed)
        for (environment, method, model), configurations in named.items()
        for name, by_seed in zip(_told_apart(method, list(configurations)), configurations.values(), strict=True)
    ]
    found: list[Line] = []
    several = len({(environment, method) for environment, method, *_ in grouped}) < len(grouped)
    for environment, method, model, by_seed in grouped:
        name = f"{method}, {model}" if several else method
        chosen = list(by_seed.values())
        value = overall({seed: entry.returns() for seed, entry in by_seed.items()})
        printed = published(chosen[0].cell.environment.id, chosen[0].cell.method.name)
        found.append(Line(environment, method, model, name, chosen, value, printed))
    order = list(dict.fromkeys(entry.environment for entry in entries))
    return sorted(found, key=lambda line: order.index(line.environment))


def _told_apart(method: str, configurations: Sequence[str]) -> list[str]:
    """A name for each configuration of a method: what differs is added, e.g. "magrpo, learning_rate=0.01"."""
    values = [flat(_by_number(json.loads(configuration))) for configuration in configurations]
    differing: list[str] = []
    for key in dict.fromkeys(key for value in values for key in value):
        having = [v for v in values if key in v]
        among = having if key.startswith("training.") else values  # what was not trained has no steps that could differ
        if any((key in v, v.get(key)) != (True, having[0][key]) for v in among):
            differing.append(key)
    short_names = [key.rpartition(".")[2] for key in differing]
    titles = {k: n if short_names.count(n) == 1 else k for k, n in zip(differing, short_names, strict=True)}
    return [", ".join([method, *(_said(titles[key], v[key]) for key in differing if key in v)]) for v in values]


def _said(name: str, value: Any) -> str:
    if name == "trained":
        return "trained" if value else "not trained"
    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"


def _by_number(value: Any) -> Any:
    """The same value with dictionaries for lists, and without what is empty."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        value = {str(number): item for number, item in enumerate(items)}
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {key: _by_number(item) for key, item in table.items()}
    return value


def by_environment(found: Sequence[Line]) -> dict[str, list[Line]]:
    """Lines grouped by environment, in order."""
    grouped: dict[str, list[Line]] = {}
    for line in found:
        grouped.setdefault(line.environment, []).append(line)
    return grouped


def verdict(found: Difference) -> str:
    """A difference in words."""
    if found.within_noise:
        return "within noise"
    return "more" if found.points.mean > 0 else "less"


def pairs(found: Sequence[Line]) -> list[tuple[Line, Line, Difference]]:
    """Every two lines of an environment that share tasks, and their difference."""
    every = (pair for group in by_environment(found).values() for pair in itertools.combinations(group, 2))
    compared = [(a, b, difference(a.returns, b.returns)) for a, b in every]
    return [(a, b, d) for a, b, d in compared if d is not None]


@dataclass(frozen=True)
class Overall:
    """A method over all environments, as arXiv:2108.13264 has it.

    Attributes:
        name: As its lines.
        iqm: Interquartile mean over runs, with a stratified bootstrap interval over seeds.
        profile: Share of runs above each of `thresholds`, low, and high.
        improvement: By another method's name, the probability that a run of this one earns more.
    """

    name: str
    iqm: Interval
    profile: tuple[Scores, Scores, Scores]
    improvement: Mapping[str, Interval]


THRESHOLDS = np.linspace(0.0, 100.0, 51)


def over_environments(found: Sequence[Line]) -> list[Overall]:
    """The methods that ran on all environments with the same number of seeds; empty where fewer than two did."""
    environments = list(by_environment(found))
    by_name: dict[str, list[Line]] = {}
    for line in found:
        by_name.setdefault(line.name, []).append(line)
    scores = {name: _scores(group) for name, group in by_name.items() if len(group) == len(environments)}
    complete = {name: table for name, table in scores.items() if table is not None}
    return [_overall(name, complete) for name in complete] if len(complete) > 1 else []


def _scores(group: Sequence[Line]) -> Scores | None:
    """Returns of shape (seeds, environments); None where the environments have different numbers of seeds."""
    columns = [[summary.return_percent.mean for summary in line.summaries] for line in group]
    if len({len(column) for column in columns}) > 1:
        return None
    return np.array(list(zip(*columns, strict=True)), dtype=np.float64)


def _overall(name: str, scores: Mapping[str, Scores]) -> Overall:
    ours = scores[name]
    low, high = stratified(interquartile_mean, ours, resamples=_RESAMPLES)

    def profile_of(table: Scores) -> Scores:
        return performance_profile(table, THRESHOLDS)

    below, above = stratified(profile_of, ours, resamples=_RESAMPLES)
    improvement: dict[str, Interval] = {}
    for other, theirs in scores.items():
        if other != name:
            worst, best = stratified(improvement_probability, ours, theirs, resamples=_RESAMPLES)
            improvement[other] = Interval(improvement_probability(ours, theirs), float(worst), float(best))
    iqm = Interval(interquartile_mean(ours), float(low), float(high))
    return Overall(name, iqm, (profile_of(ours), below, above), improvement)


# --- tables -----------------------------------------------------------------------------------------------------------


def number(value: float, digits: int = 1, missing: str = "-") -> str:
    """A number for a table; `missing` where there is none."""
    return f"{value:.{digits}f}" if math.isfinite(value) else missing


def interval(value: Interval, digits: int = 1) -> str:
    """The bounds of an interval."""
    return f"{number(value.low, digits)}-{number(value.high, digits)}" if math.isfinite(value.low) else "-"


def at_k_table(group: Sequence[Line]) -> tuple[list[str], list[list[str]]] | None:
    """pass@k, acc@k and coop@k per method, mean over seeds; None where there are none."""
    ks = sorted(
        {(name, int(k)) for line in group for s in line.summaries for name, by_k in s.at_k.items() for k in by_k}
    )
    if not ks:
        return None
    ks.sort(key=lambda pair: (("pass", "acc", "coop").index(pair[0]), pair[1]))
    body = [
        [line.name, *(number(line.mean(lambda s, n=n, k=k: _value(s.at_k.get(n, {}), str(k)))) for n, k in ks)]
        for line in group
    ]
    return ["method", *(f"{name}@{k} %" for name, k in ks)], body


def _value(by_k: Mapping[str, Interval], k: str) -> float:
    return by_k[k].mean if k in by_k else math.nan


def scheme_table(group: Sequence[Line]) -> tuple[list[str], list[list[str]]] | None:
    """Share of each cooperation scheme per method, mean over seeds; None where there are none."""
    names = list(dict.fromkeys(name for line in group for s in line.summaries for name in s.schemes))
    if not names:
        return None
    body = [
        [line.name, *(number(100 * line.mean(lambda s, n=n: s.schemes.get(n, math.nan))) for n in names)]
        for line in group
    ]
    return ["method", *(f"{name} %" for name in names)], body
