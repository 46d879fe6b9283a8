"""The episode browser of the report: which of the stored episodes a page holds, and what a reader chooses them by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..traces.page import Packed
from .lines import Line
from .traces import traces_of

FIELDS = ("environment", "task", "method", "training steps", "seed", "episode")
MOST = 2_000_000  # bytes of the episodes in a page


def browsable(all_lines: Sequence[Line]) -> tuple[Packed, bool]:
    """Stored episodes of every checkpoint of every seed, as many of each as there is room for.

    Returns:
        The episodes, and whether some had no room.
    """
    packed = Packed(FIELDS, MOST)
    running = [
        _labelled(line, str(entry.cell.seed), step, traces)
        for line in all_lines
        for entry in line.entries
        for step, traces in traces_of(entry).items()
    ]
    while running:
        drawn = [(one, following) for one in running if (following := next(one, None)) is not None]
        if not all(packed.add(*following) for _, following in drawn):
            return packed, True
        running = [one for one, _ in drawn]
    return packed, False


def _labelled(
    line: Line, seed: str, step: int, traces: Iterator[Mapping[str, Any]]
) -> Iterator[tuple[Sequence[str], Mapping[str, Any]]]:
    """The values of `FIELDS` and the trace, of each trace of a checkpoint."""
    played: Counter[str] = Counter()
    for trace in traces:
        task = str(trace["task_id"])
        played[task] += 1
        yield (line.environment, task, line.name, str(step), seed, str(played[task])), trace
