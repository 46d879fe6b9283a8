"""The tables of the leaderboard as Markdown, from the results of submissions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from ..evaluation.intervals import Interval, mean_interval, within_percent
from .measure import PERCENT, REPORTED
from .submission import Measure, Submission, TaskResult
from .suite import BoardError, load

SINGLE = "single"
_NONE = Interval(math.nan, math.nan, math.nan)
_OVER_TASKS = (
    *("return", "solved", "turns", "influence", "utilisation", "redundancy", "silent loss", "tokens", "overhead"),
)
_OF_TASK = (
    *("return", "solved", "turns", "tokens", "prompt tokens", "seconds", "parallelism", "utilisation", "redundancy"),
    *("overhead", "silent loss", "partner loss"),
)


def page(submissions: Sequence[Submission]) -> str:
    """Return the tables: means over all tasks, teams against a single agent, and each task.

    Means over tasks are only shown for submissions with all tasks of the suite.

    Raises:
        BoardError: There are no submissions, or they belong to several suites.
    """
    if len(suites := {submission.suite for submission in submissions}) != 1:
        raise BoardError(f"the submissions belong to the suites {sorted(suites)}; give submissions of one suite")
    suite = load(*suites)
    tasks = [task.environment for task in suite.tasks]
    whole = [s for s in submissions if len(s.tasks) == len(tasks)]
    lines = [f"## All tasks of {suite.name}", "", *_over_tasks(whole), "## Teams and a single agent", ""]
    lines += [*_against_single(submissions, tasks), "## Each task", ""]
    for task in tasks:
        lines += [f"### {task}", "", *_of_task([(s, r) for s in submissions for r in s.tasks if r.environment == task])]
    return "\n".join(lines)


def _over_tasks(submissions: Iterable[Submission]) -> list[str]:
    """Return the table of means over tasks, with intervals over tasks, best return first."""
    rows: list[tuple[float, list[str]]] = []
    for s in submissions:
        found = {name: _over(name, [r.statistics.get(name) for r in s.tasks]) for name in _OVER_TASKS}
        rows.append((found["return"].mean, [s.name, _kind(s, s.tasks), *map(_shown, found.values())]))
    ordered = [cells for _, cells in sorted(rows, key=lambda row: -row[0])]
    return _table(["team", "kind", *map(_head, _OVER_TASKS)], ordered)


def _over(name: str, measures: Sequence[Measure | None]) -> Interval:
    """Return the mean of a statistic over tasks with its interval; NaN if a task lacks it."""
    known = [measure.mean for measure in measures if measure]
    if len(known) < len(measures):
        return _NONE
    return within_percent(mean_interval(known), known) if name in PERCENT else mean_interval(known)


def _against_single(submissions: Sequence[Submission], tasks: Sequence[str]) -> list[str]:
    """Return the differences in return between teams and a single agent of the same model, in points, by task.

    Intervals are over rows, and over tasks for the mean of all tasks.
    """
    singles = {s.model: {r.environment: r.returns for r in s.tasks} for s in submissions if s.method == SINGLE}
    rows: list[list[str]] = []
    for s in submissions:
        if s.method == SINGLE or s.kind != "model":
            continue
        if s.model not in singles:
            rows.append([s.name, "no single agent", *("" for _ in tasks)])
            continue
        both = {r.environment: (r.returns, alone) for r in s.tasks if (alone := singles[s.model].get(r.environment))}
        found = {
            task: mean_interval([a - b for a, b in zip(team, alone, strict=True)])
            for task, (team, alone) in both.items()
        }
        overall = mean_interval([d.mean for d in found.values()]) if len(found) == len(tasks) else _NONE
        rows.append([s.name, *(_shown(d, sign="+") for d in (overall, *(found.get(task, _NONE) for task in tasks)))])
    return _table(["team", "all tasks", *tasks], rows)


def _of_task(results: Sequence[tuple[Submission, TaskResult]]) -> list[str]:
    """Return the table of one task, best return first."""
    rows: list[list[str]] = []
    for s, result in sorted(results, key=lambda pair: -fmean(pair[1].returns)):
        found = [result.statistics.get(name) for name in _OF_TASK]
        members = {n.removeprefix("influence of "): m for n, m in result.statistics.items() if " of " in n}
        influences = ", ".join(f"{name} {round(measure.mean)}" for name, measure in members.items())
        rows.append([s.name, _kind(s, [result]), *(_shown(m or _NONE) for m in found), influences])
    return _table(["team", "kind", *map(_head, _OF_TASK), "influence of each member"], rows)


def _kind(submission: Submission, results: Iterable[TaskResult]) -> str:
    """Return the kind of a team, and whether it was trained on the reward of a task."""
    return f"{submission.kind}, trained" if any(result.trained_on for result in results) else submission.kind


def _head(name: str) -> str:
    return f"{name}{' %' if name in PERCENT else ''}{'*' if name in REPORTED else ''}"


def _shown(value: Interval | Measure, sign: str = "") -> str:
    """Return "mean [low, high]"; "" for an unknown mean."""
    if math.isnan(value.mean):
        return ""
    low, high = value.low, value.high
    if low is None or high is None or math.isnan(low):
        return f"{value.mean:{sign}.1f}"
    return f"{value.mean:{sign}.1f} [{low:.1f}, {high:.1f}]"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [*(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows]), ""]
