"""Lines of a report: each line has all seeds of one method on one environment."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TypedDict, cast

from ..config import flat
from ..evaluation.comparisons import over_seeds_and_tasks, overall
from ..evaluation.intervals import Estimate, Interval
from ..evaluation.metrics import Summary
from ..types import grouped
from .runs import CellRecord, RunError


@dataclass(frozen=True)
class Curve:
    """A number during training, as a curve.

    Attributes:
        x: Number of training episodes (mean over seeds, since the size of trees varies), or number of updates.
        mean: Means over the seeds.
        low, high: Range of the seeds, or the 95 % interval of a single seed over its tasks; empty if there is neither.
    """

    x: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


class Training(TypedDict):
    """Curves over updates: the return in %, named "return"; reward parts; metrics of the learner."""

    returns: dict[str, Curve]
    parts: dict[str, Curve]
    metrics: dict[str, Curve]


@dataclass(frozen=True)
class MethodResult:
    """All seeds of one configuration: a method with its options and training, on one environment, with one model.

    Attributes:
        environment, method, model: Names in tables; equal names of methods are extended by the options that differ.
        name: The method, with the model if the method has several models on this environment.
        entries: Finished cells, one per seed.
        value: Return in % of the maximum, over seeds and tasks; with one seed over tasks.
        returns: Return by seed and task, in % of the maximum.
    """

    environment: str
    method: str
    model: str
    name: str
    entries: Sequence[CellRecord]
    value: Estimate
    returns: Mapping[int, Mapping[str, float]]

    @property
    def summaries(self) -> list[Summary]:
        """The summary of each seed."""
        return [entry.result.summary for entry in self.entries if entry.result is not None]

    @property
    def learns(self) -> bool:
        """Whether the weights were trained."""
        return any(entry.learns for entry in self.entries)

    def mean(self, number: Callable[[Summary], float]) -> float:
        """Return the mean of a number of the summary over the seeds that have it."""
        values = [value for value in map(number, self.summaries) if not math.isnan(value)]
        return fmean(values) if values else math.nan

    def measured(self, section: str) -> list[Mapping[str, Interval]]:
        """Return the numbers of a section of the report, for each seed that has them."""
        return [summary.measured[section] for summary in self.summaries if section in summary.measured]

    def components(self) -> dict[str, Interval]:
        """Return the mean reward parts, over seeds and tasks; with one seed over tasks."""
        alone = self.summaries[0].components
        if len(self.entries) == 1:
            return alone
        by_seed = [entry.parts() for entry in self.entries]
        means = {
            name: self.mean(lambda s, n=name: s.components[n].mean if n in s.components else math.nan) for name in alone
        }
        estimates = {name: over_seeds_and_tasks([parts.get(name, {}) for parts in by_seed]) for name in alone}
        return {name: estimates[name] or Interval.read(mean) for name, mean in means.items()}

    def curve(self) -> Curve | None:
        """Return the test return during training, in % of the maximum, at the evaluations that all seeds have.

        The result is None if nothing was trained.
        """
        by_seed = [{point["step"]: point for point in points} for entry in self.entries if (points := entry.curve())]
        common = sorted(set[int]().union(*by_seed).intersection(*by_seed))
        if not common:
            return None
        points = [[seed[step] for seed in by_seed] for step in common]
        columns = [[Interval.read(point["return_percent"]) for point in column] for column in points]
        means = [[interval.mean for interval in column] for column in columns]
        alone = len(by_seed) == 1
        return Curve(
            [fmean(point["training_episodes"] for point in column) for column in points],
            [fmean(column) for column in means],
            [column[0].low for column in columns] if alone else [min(column) for column in means],
            [column[0].high for column in columns] if alone else [max(column) for column in means],
        )

    def metric(self, name: str) -> dict[int, float]:
        """Return a metric of the learner by step, as the mean over the seeds with a finite value."""
        curve = self.training()["metrics"].get(name)
        return dict(zip(map(int, curve.x), curve.mean, strict=True)) if curve else {}

    def training(self) -> Training:
        """Return the curves of all metrics over the updates of all seeds, without values that are not finite."""
        values: dict[str, dict[str, dict[int, list[float]]]] = {"returns": {}, "parts": {}, "metrics": {}}
        for step in (step for entry in self.entries for step in entry.training()):
            earned = {"return": step.get("return_percent")}
            for kind, numbers in zip(values, (earned, step.get("components", {}), step["metrics"]), strict=True):
                for name, value in numbers.items():
                    if value is not None:
                        values[kind].setdefault(name, {}).setdefault(step["number"], []).append(value)
        returns, parts, metrics = ({n: _over_seeds(c) for n, c in by_name.items()} for by_name in values.values())
        return {"returns": returns, "parts": parts, "metrics": metrics}


def _over_seeds(by_step: Mapping[int, Sequence[float]]) -> Curve:
    """Return the values of the seeds at each step as a curve."""
    steps = sorted(by_step)
    several = any(len(values) > 1 for values in by_step.values())
    low, high = ([bound(by_step[step]) for step in steps] if several else [] for bound in (min, max))
    return Curve([float(step) for step in steps], [fmean(by_step[step]) for step in steps], low, high)


def short(model: str) -> str:
    """Return the name of a model without its folder."""
    return Path(model).name if model.endswith(".gguf") else model


def lines(entries: Sequence[CellRecord]) -> list[MethodResult]:
    """Return the lines of all finished cells, ordered by environment; in each, trained methods come first.

    Raises:
        RunError: Two cells have the same configuration and the same seed.
    """
    named: dict[tuple[str, str, str], dict[str, dict[int, CellRecord]]] = {}
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
    apart = [
        (environment, name, model, by_seed)
        for (environment, method, model), configurations in named.items()
        for name, by_seed in zip(_told_apart(method, list(configurations)), configurations.values(), strict=True)
    ]
    collected: list[MethodResult] = []
    several = len({(environment, method) for environment, method, *_ in apart}) < len(apart)
    for environment, method, model, by_seed in apart:
        name = f"{method}, {model}" if several else method
        chosen = list(by_seed.values())
        returns = {seed: entry.returns() for seed, entry in by_seed.items()}
        collected.append(MethodResult(environment, method, model, name, chosen, _value(chosen, returns), returns))
    order = list(dict.fromkeys(entry.environment for entry in entries))
    return sorted(collected, key=lambda line: (order.index(line.environment), not line.learns))


def _value(chosen: Sequence[CellRecord], returns: Mapping[int, Mapping[str, float]]) -> Estimate:
    """Return the return of a line; for a single seed, the return in its result."""
    interval = overall(returns)
    tasks = interval.tasks if interval else 0
    if len(chosen) == 1 and chosen[0].result is not None:
        alone = chosen[0].result.summary.return_percent
        return Estimate(alone.mean, alone.low, alone.high, 1, tasks)
    return interval or Estimate(math.nan, math.nan, math.nan, len(chosen), 0)


def _told_apart(method: str, configurations: Sequence[str]) -> list[str]:
    """Return a name for each configuration of a method, with the options that differ: "magrpo, learning_rate=0.01"."""
    values = [flat(_by_number(json.loads(configuration))) for configuration in configurations]
    differing: list[str] = []
    for key in dict.fromkeys(key for value in values for key in value):
        having = [v for v in values if key in v]
        among = having if key.startswith("training.") else values  # untrained methods have no such options
        if any((key in v, v.get(key)) != (True, having[0][key]) for v in among):
            differing.append(key)
    short_names = [key.rpartition(".")[2] for key in differing]
    titles = {k: n if short_names.count(n) == 1 else k for k, n in zip(differing, short_names, strict=True)}
    return [", ".join([method, *(_in_words(titles[key], v[key]) for key in differing if key in v)]) for v in values]


def _in_words(name: str, value: Any) -> str:
    if name == "trained":
        return "trained" if value else "not trained"
    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"


def _by_number(value: Any) -> Any:
    """Return a value in which each list is replaced by a dictionary of its items by number."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        value = {str(number): item for number, item in enumerate(items)}
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {key: _by_number(item) for key, item in table.items()}
    return value


def return_axis(group: Sequence[MethodResult]) -> tuple[float, float]:
    """Return the range of an axis of returns in %: 0 to 100, or from -100 if a method has a return below 0."""
    curves = [curve for line in group if (curve := line.curve()) is not None]
    lowest = [line.value.mean for line in group] + [value for curve in curves for value in curve.low]
    return max(-100.0, min([0.0, *filter(math.isfinite, lowest)])), 100.0


def by_environment(all_lines: Sequence[MethodResult]) -> dict[str, list[MethodResult]]:
    """Return the lines grouped by environment, in order."""
    return grouped(all_lines, lambda line: line.environment)
