"""What sections show of methods: stages of training, and all that was measured beside returns and reward parts."""

from __future__ import annotations

from collections.abc import Mapping

from ..evaluation.sections import Section, Value, section, sections
from ..results.lines import MethodResult


class Stages(Section):
    """A column for each stage, for methods of several stages and those that learn from given texts.

    A learner that learns from given texts reports the metric `labels`: 1 where their teacher may know what is right,
    else 0; see `algorithms.imitation`.
    """

    title = "Stages"
    note = (
        "What learnt, in this order. With labels: from texts of a teacher who may know the answer, which is "
        "supervision; without: from rewards, or from texts that show the form alone."
    )


_STAGES = Stages("stages")


def stages(line: MethodResult) -> Mapping[str, Value]:
    """Name, updates and labels of each stage; nothing where a single one learns from rewards."""
    labels = line.metric("labels")
    if not labels and not line.metric("stage"):
        return {}
    cell = line.entries[0].cell
    earlier = cell.method.stages
    rest = cell.training.steps - sum(stage.steps for stage in earlier)
    row: dict[str, Value] = {}
    done = 0
    for number, (name, steps) in enumerate([*((s.name, s.steps) for s in earlier), (cell.method.name, rest)], 1):
        labelled = any(labels.get(step) for step in range(done + 1, done + steps + 1))
        row[f"stage {number}"] = f"{name}, updates {done + 1}-{done + steps}, {'with' if labelled else 'no'} labels"
        done += steps
    return row


def rows_of(line: MethodResult) -> dict[str, Mapping[str, Value]]:
    """The row of a method in the table of every section that has something to show, by the name of the section."""
    names = dict.fromkeys([*sections, *(name for summary in line.summaries for name in summary.measured)])
    measured = {name: seeds for name in names if (seeds := line.measured(name))}
    rows = {_STAGES.name: stages(line), **{name: section(name).show(seeds) for name, seeds in measured.items()}}
    return {name: row for name, row in rows.items() if row}


def heading(name: str) -> Section:
    """The section of a name."""
    return _STAGES if name == _STAGES.name else section(name)
