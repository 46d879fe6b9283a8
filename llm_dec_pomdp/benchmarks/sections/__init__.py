"""Sections of a report: what is measured beside returns and reward parts, and the table that shows it.

A section is a class; every output of every report has its table, for the environments in which it has something to
show. Those of this package stand below, a line each. Other packages add theirs with `register_section`, or through the
entry-point group `llm_dec_pomdp.report_sections`, which the processes that measure find too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        name: Under which it is registered, and what it measured is kept.

    Attributes:
        title: Its heading.
        note: Sentences below the heading.
        digits: After the decimal point; columns whose name ends in % have one.
    """

    title: ClassVar[str]
    note: ClassVar[str] = ""
    digits: ClassVar[int] = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def measure(self, env: TextDecPOMDP, groups: Sequence[Group]) -> Mapping[str, float | Interval]:
        """Numbers of an evaluation of one seed, kept with its result; {} (the default) where it does not apply.

        Args:
            env: The environment under the protocol that was played; what applies to it is said by its attributes.
            groups: Independent episodes, a group for every task.
        """
        return {}

    def show(self, line: Line) -> Mapping[str, Value]:
        """A row of its table: values by column for all seeds of a method. Default: means of what was measured."""
        return line.measured_means(self.name)


sections = Registry("report section", group="llm_dec_pomdp.report_sections")


def register_section(name: str, entry_point: str | Callable[..., Any]) -> None:
    """Make a section known; it is built as `entry_point(name)`.

    Args:
        name: Under which its numbers are kept in results.
        entry_point: `"package.module:Class"` (imported on first use) or the class.
    """
    sections.register(name, entry_point)


def all_sections() -> list[Section]:
    """The sections of all reports, in order."""
    return [spec.build(spec.name) for spec in sections.values()]


def measure(env: TextDecPOMDP, groups: Sequence[Group]) -> dict[str, dict[str, Interval]]:
    """What the sections measure of an evaluation, by section; nothing of those that do not apply."""
    measured = {section.name: section.measure(env, groups) for section in all_sections()}
    return {
        section: {name: _interval(v) for name, v in values.items()} for section, values in measured.items() if values
    }


def _interval(value: float | Interval) -> Interval:
    return value if isinstance(value, Interval) else Interval.read(value)


register_section("stages", "llm_dec_pomdp.benchmarks.sections.stages:Stages")
register_section("regret", "llm_dec_pomdp.benchmarks.sections.regret:Regret")
register_section("at_k", "llm_dec_pomdp.benchmarks.sections.best_of_k:BestOfK")
register_section("schemes", "llm_dec_pomdp.benchmarks.sections.schemes:Schemes")
register_section("stopping", "llm_dec_pomdp.benchmarks.sections.stopping:WhenStopped")
register_section("orchestration", "llm_dec_pomdp.benchmarks.sections.orchestration:Orchestration")
register_section("decisions", "llm_dec_pomdp.benchmarks.sections.decisions:Decisions")
