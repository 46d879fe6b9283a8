"""The episode browser of the report: which of the stored episodes a page holds, and what a reader chooses them by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..traces import Trace
from ..traces.page import Packed
from .lines import Line
from .runs import Entry
from .traces import to_be_read

FIELDS = ("environment", "task", "method", "training steps", "seed", "episode")
MOST = 2_000_000  # bytes of the episodes in a page
_TOKENS = {"prompt_ids", "token_ids", "logprobs"}  # of which nobody reads


def browsable(all_lines: Sequence[Line]) -> tuple[Packed, bool]:
    """Stored episodes of every checkpoint of every seed, as many of each as there is room for.

    Returns:
        The episodes, and whether some had no room.
    """
    packed = Packed(FIELDS, MOST)
    running = [
        _labelled((line.environment, line.name, str(step) if _learnt(entry) else "–", str(entry.cell.seed)), traces)
        for line in all_lines
        for entry in line.entries
        for step, traces in _stored(entry).items()
    ]
    while running:
        drawn = [(one, following) for one in running if (following := next(one, None)) is not None]
        if not all(packed.add(*following) for _, following in drawn):
            return packed, True
        running = [one for one, _ in drawn]
    return packed, False


def _learnt(entry: Entry) -> bool:
    return entry.result is not None and entry.result.train_seconds > 0


def _labelled(
    checkpoint: tuple[str, str, str, str], traces: Iterator[Trace]
) -> Iterator[tuple[Sequence[str], Mapping[str, Any]]]:
    """The values of `FIELDS` and the trace, of each trace of a checkpoint."""
    environment, method, steps, seed = checkpoint
    played: Counter[str] = Counter()
    for trace in traces:
        task = str(trace["task_id"])
        played[task] += 1
        yield (environment, task, method, steps, seed, str(played[task])), trace


def _stored(entry: Entry) -> dict[int, Iterator[Trace]]:
    """The traces of a cell by training steps, the latest first."""
    return {step: map(_without_tokens, traces) for step, traces in sorted(to_be_read(entry).items(), reverse=True)}


def _without_tokens(trace: Trace) -> Trace:
    shown = [{name: event[name] for name in event if name not in _TOKENS} for event in trace["events"]]
    return {**trace, "events": shown}
