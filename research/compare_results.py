"""Print tables over seeds from files of `collect_results.py`: returns, differences, and the cost of a return.

    python research/compare_results.py research/data/NAME.json.xz [--reach 70 75] [--against NAME ...] [--rescored ENV]

Where a file has the return of every task, intervals and verdicts are those of `llm-dec-pomdp report`, over seeds and
tasks. Where it only has the mean of each seed, they are t intervals over the seeds, on the measured tasks. Differences
are paired by seed and Holm-corrected over the pairs of an environment. `--rescored` uses the scores of `llm-dec-pomdp
rescore RUN ENV` instead of those of the run's environment. With fewer than three seeds there are neither
intervals nor verdicts.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import raw_data

from llm_dec_pomdp.evaluation.comparisons import difference, overall
from llm_dec_pomdp.evaluation.intervals import LEAST_SEEDS, Estimate, holm, mean_interval
from llm_dec_pomdp.report.findings import verdict
from llm_dec_pomdp.report.tables import bounds, p_value

COSTS = ("generations", "joint_rewards", "seconds")  # keys of the points of a curve, if present
ALL_TASKS = "mean of all tasks"  # replaces the tasks if a file has only their mean

Seeds = Mapping[int, dict[str, Any]]  # seed -> collected data of its run


def title_of(cell: Mapping[str, Any], part: str) -> str:
    """Return the label of the "environment" or "method" of a run; its id or name if it has no label."""
    named = cell["cell"][part]
    return named.get("label") or named.get("id") or named["name"]


def methods(cells: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[int, dict[str, Any]]]]:
    """Return the runs by environment, method and seed; with several models, a method's name includes its model."""
    found: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    models: dict[str, set[str]] = {}
    for cell in cells:
        models.setdefault(title_of(cell, "environment"), set()).add(cell["cell"]["model"]["name"])
    for cell in cells:
        environment, name = title_of(cell, "environment"), title_of(cell, "method")
        name += f" ({cell['cell']['model']['name']})" if len(models[environment]) > 1 else ""
        found.setdefault(environment, {}).setdefault(name, {})[cell["cell"]["seed"]] = cell
    return found


def rescored(cell: dict[str, Any], environment: str) -> dict[str, Any]:
    """Return a run with the return of its final evaluation under another environment, and without other returns.

    Raises:
        ValueError: if the run has no such scores.
    """
    found = [other["return_percent"] for other in cell.get("rescored", ()) if other["environment"] == environment]
    if not found:
        raise ValueError(
            f"a run has no scores of {environment!r}; run `llm-dec-pomdp rescore RUN {environment}`, and collect"
        )
    return {**cell, "returns": {}, "curve": [], "summary": {**cell["summary"], "return_percent": found[0]}}


def returns(seeds: Seeds) -> dict[int, dict[str, float]]:
    """Collect returns by seed and task, in % of the maximum; the mean if a run has no returns of tasks."""
    if all(cell.get("returns") for cell in seeds.values()):
        return {seed: cell["returns"] for seed, cell in seeds.items()}
    return {seed: {ALL_TASKS: cell["summary"]["return_percent"]["mean"]} for seed, cell in seeds.items()}


def over(value: Estimate) -> str:
    """Return the units over which an interval is computed."""
    if value.tasks > 1:
        return value.over
    return f"{value.seeds} seeds, the measured tasks" if value.seeds > 1 else "one seed, no interval"


def over_seeds(values: Sequence[float], digits: int = 1) -> str:
    """Return the mean and interval of one number per seed; without interval if the seeds are too few."""
    if len(values) < LEAST_SEEDS:
        return f"{fmean(values):.{digits}f}" if values else ""
    found = mean_interval(values)
    return f"{found.mean:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"


def return_rows(by_method: Mapping[str, Seeds]) -> list[str]:
    """Return a row per method: every seed, the mean, and the evaluations during training."""
    lines = ["| method | seeds | return % | 95 % interval | over | by step |", "|---" * 6 + "|"]
    for method, seeds in by_method.items():
        value = overall(returns(seeds))
        assert value is not None
        each = ", ".join(f"{cell['summary']['return_percent']['mean']:.1f}" for _, cell in sorted(seeds.items()))
        curves = [{p["step"]: p["return_percent"]["mean"] for p in cell.get("curve", ())} for cell in seeds.values()]
        steps = sorted(set[int]().union(*curves).intersection(*curves))
        curve = ", ".join(f"{step}: {over_seeds([curve[step] for curve in curves])}" for step in steps)
        lines.append(f"| {method} | {each} | {value.mean:.1f} | {bounds(value)} | {over(value)} | {curve} |")
    return lines


def difference_rows(by_method: Mapping[str, Seeds], against: Sequence[str]) -> list[str]:
    """Return a row per pair of methods, or only of the pairs with a method in `against`."""
    pairs = [pair for pair in itertools.combinations(by_method, 2) if not against or {*pair} & {*against}]
    measured = [(a, b, difference(returns(by_method[a]), returns(by_method[b]))) for a, b in pairs]
    found = [(a, b, points) for a, b, points in measured if points is not None]
    lines = ["| method | against | points | 95 % interval | over | p, Holm | verdict |", "|---" * 7 + "|"]
    for (a, b, points), p in zip(found, holm([points.p for _, _, points in found]), strict=True):
        shown = f"{points.mean:+.1f} | {bounds(points, '+')} | {over(points)}"
        lines.append(f"| {a} | {b} | {shown} | {p_value(p)} | {verdict(points, p)} |")
    return lines


def needed(what: str, goal: float, cell: Mapping[str, Any]) -> float:
    """Return the episodes, generations or joint rewards of training to a return in %; NaN if it was not reached.

    Values between evaluations are interpolated linearly.
    """
    training = cell["cell"]["training"]
    width = training["prompts_per_step"] * training["group_size"]
    spent = [width * p["step"] if what == "episodes" else p[what] for p in cell["curve"]]
    points = [(x, p["return_percent"]["mean"]) for x, p in zip(spent, cell["curve"], strict=True)]
    for (x, y), (next_x, next_y) in itertools.pairwise(points):
        if next_y >= goal:
            return x + (goal - y) / (next_y - y) * (next_x - x)
    return math.nan


def reach_rows(by_method: Mapping[str, Seeds], goal: float) -> list[str]:
    """Return a row per method: training episodes to a return and their cost, means over the seeds that reached it."""
    points = [point for seeds in by_method.values() for cell in seeds.values() for point in cell["curve"]]
    columns = ["episodes", *(cost for cost in COSTS if all(cost in point for point in points))]
    shown = " | ".join(columns).replace("_", " ")
    lines = [f"| method | seeds that reached {goal:g} % | {shown} |", "|---" * (2 + len(columns)) + "|"]
    for method, seeds in by_method.items():
        numbers = {column: [needed(column, goal, cell) for cell in seeds.values()] for column in columns}
        there = {column: [n for n in of_seeds if not math.isnan(n)] for column, of_seeds in numbers.items()}
        shown = " | ".join(over_seeds(of_seeds) for of_seeds in there.values())
        lines.append(f"| {method} | {len(there['episodes'])} of {len(seeds)} | {shown} |")
    return lines


def main() -> None:
    """Read the files, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="NAME.json")
    parser.add_argument("--reach", nargs="*", type=float, default=[], help="returns in %% of the maximum")
    parser.add_argument("--against", nargs="*", default=[], help="only pairs with one of these methods")
    parser.add_argument("--rescored", metavar="ENV", help="use the scores of `llm-dec-pomdp rescore RUN ENV`")
    arguments = parser.parse_args()
    for path in arguments.files:
        cells = raw_data.read(path)
        if arguments.rescored:
            cells = [rescored(cell, arguments.rescored) for cell in cells]
        for environment, by_method in methods(cells).items():
            tables = [return_rows(by_method), difference_rows(by_method, arguments.against)]
            tables += [reach_rows(by_method, goal) for goal in arguments.reach]
            print(f"## {environment} ({path.name})\n\n" + "\n\n".join("\n".join(table) for table in tables) + "\n")


if __name__ == "__main__":
    main()
