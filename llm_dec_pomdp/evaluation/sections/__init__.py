"""Sections of a report: tables of numbers in addition to returns and reward parts.

A section is a class that measures numbers and shows them in a table. Every report has this table for the environments
to which it applies. The sections of this package are registered below. Other packages add theirs with
`register_section`, or through the entry-point group `llm_dec_pomdp.report_sections`, which also works in the processes
of a benchmark. Numbers that an environment measures itself (`TextDecPOMDP.measure`) need no section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ...envs.base import TextDecPOMDP
from ...registries import Registry
from ...types import Group, known_means
from ..intervals import Interval

Value = float | Interval | str
Seeds = Sequence[Mapping[str, Interval]]  # one mapping per seed, from name to value


class Section:
    """Base class of sections; override `measure`, `show` or both.

    Args:
        name: Registered name; results store the measured numbers under it.

    Attributes:
        title: Heading of the section.
        note: Sentences below the heading.
        digits: Digits after the decimal point; columns whose name ends in % have one.
        scale: Factor from measured to shown values; 100 shows shares in %.
    """

    title: str
    note: str = ""
    digits: ClassVar[int] = 1
    scale: ClassVar[float] = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def measure(self, env: TextDecPOMDP, groups: Sequence[Group]) -> Mapping[str, float | Interval]:
        """Return numbers of an evaluation of one seed, stored with its result; {} (the default) if it does not apply.

        Args:
            env: The environment, under the protocol of the episodes.
            groups: Independent episodes, one group per task.
        """
        return {}

    def show(self, seeds: Seeds) -> Mapping[str, Value]:
        """Return a row of the table: values by column for the seeds of a method. Default: means over the seeds."""
        return {name: self.scale * value for name, value in means(seeds).items()}


class OfEnvironment(Section):
    """The table of the numbers that an environment measures itself."""

    note = "Numbers that the environment measures; its page explains them (`llm-dec-pomdp list ID`)."
    digits = 2

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.title = name[:1].upper() + name[1:]


sections = Registry("report section", group="llm_dec_pomdp.report_sections")


def register_section(name: str, entry_point: str | Callable[..., Any]) -> None:
    """Register a section, which is built as `entry_point(name)`.

    Args:
        name: Name under which results store its numbers.
        entry_point: `"package.module:Class"` (imported on first use) or the class.
    """
    sections.register(name, entry_point)


def all_sections() -> list[Section]:
    """Return the registered sections, in order."""
    return [spec.build(spec.name) for spec in sections.values()]


def section(name: str) -> Section:
    """Return the section of a name: a registered one, or the table of the environment's own numbers."""
    return sections.find(name).build(name) if name in sections else OfEnvironment(name)


def measure(env: TextDecPOMDP, groups: Sequence[Group]) -> dict[str, dict[str, Interval]]:
    """Return the numbers of all sections that apply, and those of the environment, by section."""
    measured = {section.name: section.measure(env, groups) for section in all_sections()} | dict(env.measure(groups))
    return {
        section: {name: v if isinstance(v, Interval) else Interval.read(v) for name, v in values.items()}
        for section, values in measured.items()
        if values
    }


def means(seeds: Seeds) -> dict[str, float]:
    """Return the mean of each number over the seeds that have it."""
    return known_means([{name: value.mean for name, value in seed.items()} for seed in seeds])


register_section("regret", "llm_dec_pomdp.evaluation.sections.regret:Regret")
register_section("at_k", "llm_dec_pomdp.evaluation.sections.best_of_k:BestOfK")
register_section("orchestration", "llm_dec_pomdp.evaluation.sections.orchestration:Orchestration")
register_section("influence", "llm_dec_pomdp.evaluation.sections.influence:Influence")
register_section("injection", "llm_dec_pomdp.evaluation.sections.injection:Injection")
