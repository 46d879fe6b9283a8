"""The stored episodes in the viewer of a report, and the fields by which a reader chooses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...episodes import Trace
from ...episodes.files import evaluations
from ...results.runs import CellRecord
from ...results.traces import read_traces
from .page import Packed

FIELDS = ("environment", "task", "method", "training steps", "seed", "episode")
_TOKENS = {"prompt_ids", "token_ids", "logprobs"}  # left out of the page


def browsable(entries: Iterable[tuple[str, str, CellRecord]], most: int) -> tuple[Packed, bool]:
    """Pack stored episodes, the same number of each checkpoint and seed, up to a size limit.

    Args:
        entries: Name of the environment, name of the method, and the run.
        most: Limit of the episodes in bytes.

    Returns:
        The episodes, and whether some were left out.
    """
    packed = Packed(FIELDS, most)
    running = [
        _labelled((environment, method, str(step) if entry.learns else "–", str(entry.cell.seed)), traces)
        for environment, method, entry in entries
        for step, traces in _stored(entry).items()
    ]
    while running:
        drawn = [(traces, following) for traces in running if (following := next(traces, None)) is not None]
        if not all(packed.add(*following) for _, following in drawn):
            return packed, True
        running = [traces for traces, _ in drawn]
    return packed, False


def _labelled(
    checkpoint: tuple[str, str, str, str], traces: Iterator[Trace]
) -> Iterator[tuple[Sequence[str], Mapping[str, Any]]]:
    """Yield the values of `FIELDS` and the trace, for each trace of a checkpoint."""
    environment, method, steps, seed = checkpoint
    played: Counter[str] = Counter()
    for trace in traces:
        task = str(trace["task_id"])
        played[task] += 1
        yield (environment, task, method, steps, seed, str(played[task])), trace


def _stored(entry: CellRecord) -> dict[int, Iterator[Trace]]:
    """Return the traces of a run without token ids, by the number of updates, latest first."""
    files = sorted(evaluations(entry.folder).items(), reverse=True)
    return {step: map(_without_tokens, read_traces(path)) for step, path in files}


def _without_tokens(trace: Trace) -> Trace:
    shown = [{name: event[name] for name in event if name not in _TOKENS} for event in trace["events"]]
    return {**trace, "events": shown}
