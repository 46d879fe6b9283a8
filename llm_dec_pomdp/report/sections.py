"""Sections of a report: stages of training, and measurements other than returns and reward parts."""

from __future__ import annotations

from collections.abc import Mapping

from ..evaluation.sections import Section, Value, section, sections
from ..results.lines import MethodResult


class Stages(Section):
    """A section with a column for each stage, for methods with several stages or with imitation.

    A learner that imitates texts reports the metric `labels`: 1 if the teacher may know the right answer, else 0; see
    `algorithms.imitation`.
    """

    title = "Stages"
    note = (
        "The learners that trained the team, in this order. With labels: trained on texts of a teacher that may know "
        "the answer (supervision). No labels: trained on rewards, or on texts that only show the format."
    )


_STAGES = Stages("stages")


def stages(line: MethodResult) -> Mapping[str, Value]:
    """Return name, updates and labels of each stage; an empty mapping for a single stage that learns from rewards."""
    labels = line.metric("labels")
    if not labels and not line.metric("stage"):
        return {}
    cell = line.entries[0].cell
    earlier = cell.method.stages
    rest = cell.training.steps - sum(stage.steps for stage in earlier)
    row: dict[str, Value] = {}
    done = 0
    names = [f"{s.name} ({s.environment})" if str(s.environment) else s.name for s in earlier]
    of_stages = zip([*names, cell.method.name], [*(s.steps for s in earlier), rest], strict=True)
    for number, (name, steps) in enumerate(of_stages, 1):
        labelled = any(labels.get(step) for step in range(done + 1, done + steps + 1))
        row[f"stage {number}"] = f"{name}, updates {done + 1}-{done + steps}, {'with' if labelled else 'no'} labels"
        done += steps
    return row


def rows_of(line: MethodResult) -> dict[str, Mapping[str, Value]]:
    """Return the row of a method in each section that has values for it, by the name of the section."""
    names = dict.fromkeys([*sections, *(name for summary in line.summaries for name in summary.measured)])
    measured = {name: seeds for name in names if (seeds := line.measured(name))}
    rows = {_STAGES.name: stages(line), **{name: section(name).show(seeds) for name, seeds in measured.items()}}
    return {name: row for name, row in rows.items() if row}


def heading(name: str) -> Section:
    """Return the section with this name."""
    return _STAGES if name == _STAGES.name else section(name)
