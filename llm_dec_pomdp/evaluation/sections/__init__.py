"""Sections of a report: each measures something beside returns and reward parts, and shows it in a table.

A section is a class. Its table is in every output of every report, for the environments in which it has something to
show. Those of this package are registered below. Other packages add theirs with `register_section`, or through the
entry-point group `llm_dec_pomdp.report_sections`, which the processes of cells find too. What an environment measures
itself (`TextDecPOMDP.measure`) needs no section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ...envs.base import TextDecPOMDP
from ...registries import Registry
from ...types import Group, known_means
from ..intervals import Interval

Value = float | Interval | str
Seeds = Sequence[Mapping[str, Interval]]  # what was measured under each seed, by name


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

    title: str
    note: str = ""
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

    def show(self, seeds: Seeds) -> Mapping[str, Value]:
        """A row of its table: values by column for the seeds of a method. Default: means of what was measured."""
        return {name: self.scale * value for name, value in means(seeds).items()}


class OfEnvironment(Section):
    """What an environment measures, in a table that is the same for all of them."""

    note = "What the environment measures; its manual says what the numbers are (`llm-dec-pomdp list ID`)."
    digits = 2

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.title = name[:1].upper() + name[1:]


sections = Registry("report section", group="llm_dec_pomdp.report_sections")


def register_section(name: str, entry_point: str | Callable[..., Any]) -> None:
    """Make a section known; it is built as `entry_point(name)`.

    Args:
        name: Under which results keep its numbers.
        entry_point: `"package.module:Class"` (imported on first use) or the class.
    """
    sections.register(name, entry_point)


def all_sections() -> list[Section]:
    """The registered sections, in order."""
    return [spec.build(spec.name) for spec in sections.values()]


def section(name: str) -> Section:
    """The section that a number was kept under: a registered one, or that of an environment."""
    return sections.find(name).build(name) if name in sections else OfEnvironment(name)


def measure(env: TextDecPOMDP, groups: Sequence[Group]) -> dict[str, dict[str, Interval]]:
    """What the sections that apply measure of an evaluation, and what the environment does, by section."""
    measured = {section.name: section.measure(env, groups) for section in all_sections()} | dict(env.measure(groups))
    return {
        section: {name: v if isinstance(v, Interval) else Interval.read(v) for name, v in values.items()}
        for section, values in measured.items()
        if values
    }


def means(seeds: Seeds) -> dict[str, float]:
    """Means over the seeds that have a number."""
    return known_means([{name: value.mean for name, value in seed.items()} for seed in seeds])


register_section("regret", "llm_dec_pomdp.evaluation.sections.regret:Regret")
register_section("at_k", "llm_dec_pomdp.evaluation.sections.best_of_k:BestOfK")
register_section("orchestration", "llm_dec_pomdp.evaluation.sections.orchestration:Orchestration")
register_section("influence", "llm_dec_pomdp.evaluation.sections.influence:Influence")
