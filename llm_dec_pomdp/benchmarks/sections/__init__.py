"""Sections of a report: each measures something beside returns and reward parts, and shows it in a table.

A section is a class. Its table is in every output of every report, for the environments in which it has something to
show. Those of this package are registered below. Other packages add theirs with `register_section`, or through the
entry-point group `llm_dec_pomdp.report_sections`, which the processes of cells find too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from ...envs.base import TextDecPOMDP
from ...registries import Registry
from ...types import Group
from ..intervals import Interval

if TYPE_CHECKING:
    from ..lines import Line

Value = float | Interval | str


class Section:
    """Derive from it, and override `measure`, `show` or both.

    Args:
        name: Its registered name, under which results keep what it measured.

    Attributes:
        title: Its heading.
        note: Sentences below the heading.
        digits: After the decimal point; columns whose name ends in % have one.
        scale: Factor between what is measured and what is shown; 100 shows shares in %.
    """

    title: ClassVar[str]
    note: ClassVar[str] = ""
    digits: ClassVar[int] = 1
    scale: ClassVar[float] = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def measure(self, env: TextDecPOMDP, groups: Sequence[Group]) -> Mapping[str, float | Interval]:
        """Numbers of an evaluation of one seed, kept with its result; {} (the default) where it does not apply.

        Args:
            env: The environment under the protocol that was played.
            groups: Independent episodes, a group for every task.
        """
        return {}

    def show(self, line: Line) -> Mapping[str, Value]:
        """A row of its table: values by column for all seeds of a method. Default: means of what was measured."""
        return {name: self.scale * value for name, value in line.measured_means(self.name).items()}


sections = Registry("report section", group="llm_dec_pomdp.report_sections")


def register_section(name: str, entry_point: str | Callable[..., Any]) -> None:
    """Make a section known; it is built as `entry_point(name)`.

    Args:
        name: Under which results keep its numbers.
        entry_point: `"package.module:Class"` (imported on first use) or the class.
    """
    sections.register(name, entry_point)


def all_sections() -> list[Section]:
    """The sections of all reports, in order."""
    return [spec.build(spec.name) for spec in sections.values()]


def measure(env: TextDecPOMDP, groups: Sequence[Group]) -> dict[str, dict[str, Interval]]:
    """What the sections that apply measure of an evaluation, by section."""
    measured = {section.name: section.measure(env, groups) for section in all_sections()}
    return {
        section: {name: v if isinstance(v, Interval) else Interval.read(v) for name, v in values.items()}
        for section, values in measured.items()
        if values
    }


def known_means(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each number over the episodes that have it (it is not NaN); without those that none has."""
    names = dict.fromkeys(name for one in measured for name in one)
    known = {name: [one[name] for one in measured if not math.isnan(one.get(name, math.nan))] for name in names}
    return {name: fmean(values) for name, values in known.items() if values}


register_section("stages", "llm_dec_pomdp.benchmarks.sections.stages:Stages")
register_section("regret", "llm_dec_pomdp.benchmarks.sections.regret:Regret")
register_section("at_k", "llm_dec_pomdp.benchmarks.sections.best_of_k:BestOfK")
register_section("schemes", "llm_dec_pomdp.benchmarks.sections.schemes:Schemes")
register_section("stopping", "llm_dec_pomdp.benchmarks.sections.stopping:WhenStopped")
register_section("orchestration", "llm_dec_pomdp.benchmarks.sections.orchestration:Orchestration")
register_section("decisions", "llm_dec_pomdp.benchmarks.sections.decisions:Decisions")
