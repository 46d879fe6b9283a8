"""Reading and export of the stored episodes of a run, which `benchmarks.kept` writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import (
    Any,
    NotRequired,  # pydantic reads that of typing from Python 3.12 on
)

from typing_extensions import TypedDict

from ..episodes import Trace, TraceError, read
from ..episodes.files import last_evaluation
from ..storage.reading import conform
from .runs import Run


class _Event(TypedDict):
    agent: str


class _Shape(TypedDict):
    """The fields of a trace that are shown and exported; `trace validate` needs more."""

    trace_id: str
    task_id: str
    events: list[_Event]
    metrics: NotRequired[dict[str, Any] | None]


def read_traces(path: Path) -> Iterator[Trace]:
    """Yield the traces of a file, one at a time; raise FileError if a trace lacks a field that is shown."""
    for trace in read(path):
        conform(trace, _Shape, str(path))
        yield trace


def last_episodes(run: Run, *, token_ids: bool = False) -> Iterator[Trace]:
    """Yield the traces of the last evaluations of all cells of a run; their ids begin with the cell.

    Raises:
        TraceError: Token ids are requested and a cell has none, or there are no episodes.
    """
    none = True
    for entry in run.entries:
        file = last_evaluation(entry.folder)
        for trace in read_traces(file) if file else ():
            if token_ids and any("tokens" in e and "token_ids" not in e for e in trace["events"]):
                raise TraceError(
                    f"{entry.cell.label} of {str(run.folder)!r} has no token ids, which a run stores with "
                    "bench --traces; leave --token-ids out, or repeat the run with --traces"
                )
            none = False
            yield {**trace, "trace_id": f"{entry.cell.label}/{trace['trace_id']}"}
    if none:
        raise TraceError(f"{str(run.folder)!r} has no evaluated episodes yet; export it when a run is done")
