"""Three measures of how main orchestrates its sub-agents (reward family R7 of arXiv:2605.02801), each in [0, 1].

Main asks in rounds. The sub-agents of a round work in parallel. A step is found if a report names its value.

| measure | definition |
|---|---|
| critical_path | least number of rounds that the question needs / rounds of main; 0 if a step is not found |
| split | steps with a right invocation / the larger of the numbers of steps and invocations |
| aggregation | share of the found steps whose value main uses; 0 if none is found |

An invocation is right for a step if its specialist has the skill that the step needs, and its subtask names the
subjects and the relation. It counts for one step. Main uses a value if it names it in a later subtask that needs it, or
gives the right answer from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_dec_pomdp.types import TaskItem

from .decisions import askable_of, is_named, words_of
from .questions import Invocation, Known, QuestionStep, steps_of
from .worlds import RELATIONS

MEASURES = ("critical_path", "split", "aggregation")


def orchestration(item: TaskItem, works: Sequence[Invocation], *, right: bool) -> dict[str, float]:
    """Return the three measures of an episode; {} if the steps of the question are not known.

    Args:
        item: The question.
        works: All invocations, in order.
        right: Whether the answer is right.
    """
    steps, lines = askable_of(item), steps_of(item)
    if not steps:
        return {}
    found = [step for step in steps if any(is_named(work.reported, str(step.value)) for work in works)]
    rounds = len({work.round for work in works})
    left = list(works)
    for step in steps:
        fitting = [work for work in left if _fits(work, step)]
        left = [work for work in left if work is not fitting[0]] if fitting else left
    used = [_uses(step, lines, works, right=right) for step in found]
    return {
        "critical_path": min(1.0, _depth(lines, len(lines)) / rounds) if len(found) == len(steps) else 0.0,
        "split": (len(works) - len(left)) / max(len(steps), len(works)),
        "aggregation": sum(used) / len(used) if used else 0.0,
    }


def _fits(work: Invocation, step: Known) -> bool:
    relation = RELATIONS[step.step.relation]
    named = all(is_named(work.subtask, subject) for subject in step.subjects)
    return named and relation.skill in work.kind.split("+") and bool(relation.words & words_of(work.subtask))


def _uses(step: Known, lines: Sequence[QuestionStep], works: Sequence[Invocation], *, right: bool) -> bool:
    """Return whether main uses the value of a found step: in a subtask of a later step, or in its answer."""
    reference = f"#{lines.index(step.step) + 1}"
    readers = [line for line in lines if reference in line.subjects and line.relation in RELATIONS]
    known = min(work.round for work in works if is_named(work.reported, str(step.value)))
    later = [work.subtask for work in works if work.round > known]
    return any(is_named(subtask, str(step.value)) for subtask in later) if readers else right


def _depth(lines: Sequence[QuestionStep], number: int) -> int:
    """Return the number of steps, without comparisons, in the longest chain that ends in this step (from 1)."""
    line = lines[number - 1]
    before = [_depth(lines, int(subject[1:])) for subject in line.subjects if subject.startswith("#")]
    return max(before, default=0) + (line.relation in RELATIONS)
