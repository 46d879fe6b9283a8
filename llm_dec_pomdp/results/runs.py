"""Reading of run folders: each cell with its result, or with the reason of its failure.

A cell is one environment, method and seed. A run folder has `versions.json`, `suite.json` for a suite, `results.json`,
the report, and `cells/LABEL/`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ..benchmarks.result import ROLLBACKS, Result, cells_in, failure_in, find_result
from ..benchmarks.suite import FREE_IN_LINE, Cell
from ..episodes import read, to_episode
from ..episodes.files import last_evaluation
from ..storage.reading import conform, find_json, is_there, read_json, read_text
from ..storage.runfolder import read_lines
from ..types import Episode, grouped
from .records import PointRecord, RollbackRecord, StepRecord

_SHARED = ("environment", "evaluation", "sampling")  # parts of a configuration that must be equal for a comparison


class RunError(ValueError):
    """A run folder that cannot be used; the message has its path and the remedy."""


@dataclass(frozen=True)
class CellRecord:
    """One cell of a run folder.

    Attributes:
        cell: Its configuration.
        folder: Its folder.
        run: Name of the run folder.
        result: Its result; None if it is not done.
        failure: The reason why it is not done; "" if it is done.
        marked: Whether the name of the method includes the run, because the reported runs are not comparable.
    """

    cell: Cell
    folder: Path
    run: str
    result: Result | None
    failure: str = ""
    marked: bool = False

    @property
    def configuration(self) -> dict[str, Any]:
        """The options that all seeds of one line share, without options that do not change numbers."""
        values = self.cell.without(*FREE_IN_LINE)
        trained = self.result is not None and self.result.train_seconds > 0
        judge = {"judge": self.result.judge} if self.result is not None and self.result.judge else {}
        return {
            **values,
            **judge,
            "training": {"trained": True, **values["training"]} if trained else {"trained": False},
        }

    @property
    def environment(self) -> str:
        """The name of the environment in tables."""
        return self.cell.environment.title

    @property
    def method(self) -> str:
        """The name of the method in tables."""
        return f"{self.cell.method.title} ({self.run})" if self.marked else self.cell.method.title

    @property
    def learns(self) -> bool:
        """Whether the weights have been trained, at least in part."""
        if self.result is None:
            return is_there(self.folder / "train.jsonl")
        return self.result.train_seconds > 0

    def shown(self, agent: str) -> str:
        """Return the role of an agent, with its name if several agents share the role; the name if there is no role."""
        roles: Mapping[str, str] = self.result.roles if self.result else {}
        role = roles.get(agent, agent)
        return f"{role} ({agent})" if list(roles.values()).count(role) > 1 else role

    def episodes(self) -> Sequence[Episode]:
        """Return the episodes of the last evaluation; none before the cell is done."""
        file = last_evaluation(self.folder) if self.result is not None else None
        return [to_episode(trace) for trace in read(file)] if file else []

    def curve(self) -> Sequence[PointRecord]:
        """Return the evaluations during training, without those that could not be scored."""
        lines = read_lines(self.folder / "curve.jsonl", PointRecord)
        return [line for line in lines if line["return_percent"]["mean"] is not None]

    def training(self) -> Sequence[StepRecord]:
        """Return the records of all updates."""
        return read_lines(self.folder / "train.jsonl", StepRecord)

    def rollbacks(self) -> Sequence[RollbackRecord]:
        """Return the returns to checkpoints after divergence; none if training did not diverge."""
        return find_json(self.folder / ROLLBACKS, list[RollbackRecord]) or []

    def returns(self) -> dict[str, float]:
        """Return the mean score of the last actions on each evaluation task, in % of the maximum."""
        if self.result is None:
            return {}
        percent = self.result.scale.percent
        return _by_task((e.item_id, percent(e.final.total)) for e in self.episodes() if e.final)

    def parts(self) -> dict[str, dict[str, float]]:
        """Return the mean of each part of the score of the last actions, by part and evaluation task."""
        scored = [(e.item_id, e.final.components) for e in self.episodes() if e.final and e.final.scorable]
        names = dict.fromkeys(name for _, parts in scored for name in parts)
        return {name: _by_task((task, parts[name]) for task, parts in scored if name in parts) for name in names}


def _by_task(measured: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean of each task over its episodes that have a number."""
    by_task = grouped(((task, value) for task, value in measured if not math.isnan(value)), lambda pair: pair[0])
    return {task: fmean(value for _, value in pairs) for task, pairs in by_task.items()}


@dataclass(frozen=True)
class Run:
    """A run folder.

    Attributes:
        folder: Its path.
        title: Name of the suite, or of the folder.
        entries: Its cells in order.
        versions: Versions of packages and hardware.
        suite: The suite as plain values; empty for single runs.
        commands: The command lines that created it.
    """

    folder: Path
    title: str
    entries: Sequence[CellRecord]
    versions: Mapping[str, Any]
    suite: Mapping[str, Any]
    commands: Sequence[str] = ()

    @property
    def results(self) -> list[Result]:
        """The results of the cells that are done."""
        return [entry.result for entry in self.entries if entry.result is not None]


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        RunError: The folder is not a run folder.
        FileError: A file in it cannot be read.
    """
    if not is_there(folder / "versions.json"):
        raise RunError(
            f"{str(folder)!r} is no run folder (versions.json is missing); give a folder that bench or train made"
        )
    versions = read_json(folder / "versions.json", dict[str, Any])
    suite = find_json(folder / "suite.json", dict[str, Any]) or {}
    title = conform(suite.get("name", folder.name), str, f"{folder / 'suite.json'}, field name")
    entries = [read_entry(cell, folder.name) for cell in cells_in(folder)]
    commands = folder / "commands.txt"
    typed = [line for line in read_text(commands).splitlines() if line] if is_there(commands) else []
    return Run(folder, title, entries, versions, suite, typed)


def read_entry(folder: Path, run: str) -> CellRecord:
    """Read a cell from its folder.

    Raises:
        RunError: A file in it is damaged.
    """
    try:
        cell, result = Cell.read(folder / "cell.json"), find_result(folder)
        failure = "" if result else failure_in(folder)
    except (KeyError, ValueError) as error:
        raise RunError(
            f"{str(folder)!r} is damaged ({error}); run it again with bench --resume, or remove it"
        ) from error
    return CellRecord(cell, folder, run, result, failure)


# --- several runs -----------------------------------------------------------------------------------------------------


def _names(runs: Sequence[Run]) -> dict[Path, str]:
    """Return the names of run folders, or their paths if two have the same name."""
    clear = len({run.folder.name for run in runs}) == len(runs)
    return {run.folder: run.folder.name if clear else str(run.folder) for run in runs}


def mixtures(runs: Sequence[Run]) -> list[str]:
    """Return a sentence for each difference that makes runs incomparable, with runs and values; [] if there is none."""
    warnings: list[str] = []
    names = _names(runs)
    by_family: dict[str, dict[str, set[str]]] = {}
    for name, entry in ((names[run.folder], entry) for run in runs for entry in run.entries):
        family, _, version = entry.cell.environment.id.rpartition("-v")
        if re.fullmatch(r"\d+", version):
            by_family.setdefault(family, {}).setdefault(f"v{version}", set()).add(name)
    for family, versions in by_family.items():
        if len(versions) > 1 and not set.intersection(*versions.values()):
            warnings.append(f"{family} has versions with different rewards: {_where(versions)}")
    packages: dict[str, set[str]] = {}
    for run in runs:
        packages.setdefault(str(run.versions.get("llm_dec_pomdp")), set()).add(names[run.folder])
    if len(packages) > 1:
        warnings.append(f"the runs were made with different versions of llm_dec_pomdp: {_where(packages)}")
    for environment in dict.fromkeys(entry.environment for run in runs for entry in run.entries):
        of = [(names[run.folder], e) for run in runs for e in run.entries if e.environment == environment]
        warnings += _differing(environment, of)
    return warnings + _repeated([entry for run in runs for entry in run.entries])


def _where(runs_by_value: Mapping[str, Iterable[str]]) -> str:
    """Return values and the runs that have them: "v0 in first, v1 in second and third"."""
    return ", ".join(f"{value} in {' and '.join(sorted(set(runs)))}" for value, runs in runs_by_value.items())


def _differing(environment: str, entries: Sequence[tuple[str, CellRecord]]) -> list[str]:
    """Return a sentence for each setting that all cells of an environment must share and that differs between them.

    Args:
        environment: Its title.
        entries: Its cells, each with the name of its run.
    """
    values: dict[str, dict[str, list[str]]] = {}  # setting -> value -> runs
    for run, entry in entries:
        configuration = entry.configuration
        settings = {key: configuration[part][key] for part in _SHARED for key in configuration[part]}
        if entry.result is not None:
            settings["judge"] = entry.result.judge
        if entry.result is not None and entry.result.tasks:
            settings["digest of the evaluation tasks"] = entry.result.tasks
        for setting, value in settings.items():
            values.setdefault(setting, {}).setdefault(json.dumps(value, sort_keys=True), []).append(run)
    return [f"{environment}: {setting} is {_where(runs)}" for setting, runs in sorted(values.items()) if len(runs) > 1]


def _repeated(entries: Sequence[CellRecord]) -> list[str]:
    """Return a sentence for each pair of finished cells with the same configuration and seed."""
    warnings: list[str] = []
    first: dict[str, CellRecord] = {}
    for entry in (entry for entry in entries if entry.result is not None):
        identity = json.dumps([entry.cell.seed, entry.configuration], sort_keys=True)
        other = first.setdefault(identity, entry)
        if other is not entry:
            warnings.append(
                f"{entry.method} with seed {entry.cell.seed} on {entry.environment} has the same configuration in "
                f"{str(other.folder)!r} and in {str(entry.folder)!r}"
            )
    return warnings


def merge(runs: Sequence[Run], *, allow_mixed: bool = False) -> tuple[list[CellRecord], list[str]]:
    """Return the cells of several run folders, and warnings; a cell is one environment, method and seed.

    Args:
        runs: The run folders in order. An unfinished cell is left out if another folder has it finished.
        allow_mixed: Also merge runs that are not comparable.

    Raises:
        RunError: The runs are not comparable, or a cell occurs twice, and `allow_mixed` is False.
    """
    warnings = mixtures(runs)
    if warnings and not allow_mixed:
        raise RunError(
            f"these runs are not comparable: {'; '.join(warnings)}. Give --allow-mixed to report them together anyway"
        )
    entries = [entry for run in runs for entry in run.entries]
    if warnings:
        names = _names(runs)
        marked = [(names[run.folder], entry) for run in runs for entry in run.entries]
        return [dataclasses.replace(entry, marked=True, run=name) for name, entry in marked], warnings
    done = [entry.cell for entry in entries if entry.result is not None]
    merged = {json.dumps(e.cell.to_dict(), sort_keys=True): e for e in entries if e.result or e.cell not in done}
    return list(merged.values()), warnings
