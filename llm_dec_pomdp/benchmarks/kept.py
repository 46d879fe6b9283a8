"""The episodes of a run: written while a cell is evaluated, read back, exported.

`cells/LABEL/episodes/step-N.jsonl` holds the evaluation after N training steps as traces; N is 0 for methods that do
not learn. Of every cell the evaluations before training and at the end are kept, without token ids; with `traces` all
of them, with token ids.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import NotRequired, TypedDict  # pydantic reads that of typing from Python 3.12 on

from ..envs.base import TextDecPOMDP
from ..episodes import Header, Trace, TraceError, TraceWriter, read
from ..episodes.files import Texts, evaluation_file, evaluations, last_evaluation
from ..storage.reading import conform
from ..types import Group
from .suite import Cell

if TYPE_CHECKING:
    from .runs import Run

Keep = Callable[[Sequence[Group]], None]


class _Event(TypedDict):
    agent: str


class _Shape(TypedDict):
    """What is shown and exported of a trace; `trace validate` needs more."""

    trace_id: str
    task_id: str
    events: list[_Event]
    metrics: NotRequired[dict[str, Any] | None]


def header_of(cell: Cell, env: TextDecPOMDP, steps: int) -> Header:
    """The header of the episodes of a cell, in its evaluation environment, for the weights after `steps` updates."""
    options = dict(cell.environment.options)
    if cell.environment.max_turns is not None:
        options["max_turns"] = cell.environment.max_turns
    models = dict.fromkeys(env.possible_agents, cell.model.name)
    for member in cell.model.members:
        models |= {a: member.model for a in env.possible_agents if {a, env.role(a)} & set(member.agents)}
    return Header.of(
        env,
        cell.environment.id,
        options=options,
        protocol=cell.protocol,
        models=models,
        weights=steps,
        sampling=cell.sampling.build(),
    )


@contextlib.contextmanager
def keeping(cell: Cell, env: TextDecPOMDP, folder: Path, steps: int, *, token_ids: bool) -> Generator[Keep]:
    """Write the episodes of an evaluation into a file of the cell's `folder`, which is there when all were played."""
    path = evaluation_file(folder, steps)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)  # left by an attempt that was stopped after this evaluation
    header, items = header_of(cell, env, steps), {item.id: item for item in env.items}
    with TraceWriter(path, token_ids=token_ids) as writer:

        def keep(groups: Sequence[Group]) -> None:
            for episode in (episode for group in groups for episode in group.episodes):
                writer.write_episode(episode, header, items[episode.item_id])

        yield keep


def read_traces(path: Path) -> Iterator[Trace]:
    """The traces of a file, one at a time; raises FileError where one lacks what is shown of it."""
    for trace in read(path):
        conform(trace, _Shape, str(path))
        yield trace


def forget_after(folder: Path, steps: int) -> None:
    """Remove the evaluations of a cell after more training steps than those it goes on from."""
    for later, path in evaluations(folder).items():
        if later > steps:
            path.unlink()


def export(run: Run, path: Path, texts: Texts = "inline", *, token_ids: bool = False) -> int:
    """Write the last evaluations of all cells of a run into one file of traces; returns their number.

    Raises:
        TraceError: A cell was run without `--traces` and has no token ids, or there are no episodes.
    """
    with TraceWriter(path, texts, token_ids=token_ids) as writer:
        for entry in run.entries:
            file = last_evaluation(entry.folder)
            for trace in read_traces(file) if file else ():
                if token_ids and any("tokens" in e and "token_ids" not in e for e in trace["events"]):
                    raise TraceError(
                        f"{entry.cell.label} of {str(run.folder)!r} has no token ids: a run keeps them with bench "
                        "--traces; leave --token-ids out, or run it with them"
                    )
                writer.write({**trace, "trace_id": f"{entry.cell.label}/{trace['trace_id']}"})
        if not writer.count:
            raise TraceError(f"{str(run.folder)!r} has no evaluated episodes yet; export it when a cell is done")
    return writer.count
