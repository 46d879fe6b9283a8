"""An example of what a team wrote before and after training on the same task, chosen by a stated rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..traces import Trace
from .lines import Line
from .traces import to_be_read

RULE = "The first evaluation task under the lowest seed: what each agent wrote last, least and most trained."


@dataclass(frozen=True)
class BeforeAfter:
    """Two episodes of one task.

    Attributes:
        method: Name of the line.
        seed, task: What was played.
        steps: Training steps of the weights, before and after.
        scores: What was earned; None where it could not be scored.
        texts: Role of the agent, its text before and its text after.
    """

    method: str
    seed: int
    task: str
    steps: tuple[int, int]
    scores: tuple[float | None, float | None]
    texts: Sequence[tuple[str, str, str]]


def before_and_after(line: Line) -> BeforeAfter | None:
    """The example of a method; None where it does not learn, or was evaluated less than twice."""
    entry = min(line.entries, key=lambda one: one.cell.seed)
    evaluations = to_be_read(entry)
    if not line.learns or len(evaluations) < 2:
        return None
    first, last = min(evaluations), max(evaluations)
    before, after = next(evaluations[first], None), next(evaluations[last], None)
    if before is None or after is None or before["task_id"] != after["task_id"]:
        return None
    earlier, later = _last_texts(before), _last_texts(after)
    texts = [(entry.shown(agent), earlier.get(agent, ""), later.get(agent, "")) for agent in earlier | later]
    scores = (_score(before), _score(after))
    return BeforeAfter(line.name, entry.cell.seed, str(before["task_id"]), (first, last), scores, texts)


def _last_texts(trace: Trace) -> dict[str, str]:
    """By agent, what it wrote last."""
    written: list[Mapping[str, Any]] = [event for event in trace["events"] if "tokens" in event]
    return {event["agent"]: str(event.get("content", "")) for event in written}


def _score(trace: Trace) -> float | None:
    metrics: Mapping[str, Any] = trace.get("metrics") or {}
    return metrics.get("score")
