"""The traces of a run: written while it is evaluated, or made from its recorded episodes.

`cells/LABEL/traces/step-N.jsonl` holds the evaluation after N training steps; N is 0 for methods that do not learn.
These files have token ids; `start.jsonl` and `episodes.jsonl`, which every cell has, do not.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import NotRequired, TypedDict  # pydantic reads that of typing from Python 3.12 on

from ..envs.base import TextDecPOMDP
from ..storage.reading import conform, is_there
from ..storage.runfolder import iterate_records
from ..traces import Header, Player, Trace, TraceError, TraceWriter, from_episode, read
from ..traces.files import Texts
from ..types import Group, TaskItem
from .records import AT_THE_END, BEFORE_TRAINING, EpisodeRecord, recorded_episode
from .setup import build_env
from .suite import Cell

if TYPE_CHECKING:
    from .runs import Entry, Run

Keep = Callable[[Sequence[Group]], None]


class _Event(TypedDict):
    agent: str


class _Shape(TypedDict):
    """What readers of runs need of a trace; `trace validate` needs more."""

    trace_id: str
    task_id: str
    events: list[_Event]
    metrics: NotRequired[dict[str, Any] | None]


def header_of(cell: Cell, env: TextDecPOMDP, steps: int) -> Header:
    """The header of the traces of a cell, in its evaluation environment, for the weights after `steps` updates."""
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
def keeping(cell: Cell, env: TextDecPOMDP, folder: Path | None, steps: int) -> Generator[Keep]:
    """Write the traces of an evaluation into a file that is there when all of it was played; see `header_of`.

    Nothing is written where `folder`, that of the cell, is None.
    """
    if folder is None:
        yield lambda groups: None
        return
    path = folder / "traces" / f"step-{steps}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)  # left by an attempt that was stopped after this evaluation
    header, items = header_of(cell, env, steps), _by_id(env)
    with TraceWriter(path, token_ids=True) as writer:

        def keep(groups: Sequence[Group]) -> None:
            for episode in (episode for group in groups for episode in group.episodes):
                writer.write_episode(episode, header, items[episode.item_id])

        yield keep


def files_of(entry: Entry) -> Mapping[int, Path]:
    """The trace files of a cell by training steps, in ascending order."""
    paths = (entry.folder / "traces").glob("step-*.jsonl")
    numbered = ((re.fullmatch(r"step-(\d{1,9})\.jsonl", path.name), path) for path in paths)
    return dict(sorted((int(found[1]), path) for found, path in numbered if found))


def to_be_read(entry: Entry) -> dict[int, Iterator[Trace]]:
    """The traces of every evaluation of a cell, by training steps, for people; they are read when they are asked for.

    Where a cell wrote none they are made from its evaluations before training and at the end. That is done without its
    environment, whose code may not be trusted, so that these traces have no task and cannot be played again.
    """
    if files := files_of(entry):
        return {steps: _shaped(path) for steps, path in files.items()}
    recorded = ((0, entry.folder / BEFORE_TRAINING), (_steps(entry), entry.folder / AT_THE_END))
    return {steps: _sketches(entry, path) for steps, path in recorded if is_there(path)}


def _shaped(path: Path) -> Iterator[Trace]:
    """The traces of a file that have what is read of them here."""
    return (conform(trace, _Shape, str(path)) and trace for trace in read(path))  # every trace has fields


def _sketches(entry: Entry, path: Path) -> Iterator[Trace]:
    return (_sketch(entry, record) for record in iterate_records(path, EpisodeRecord))


def _sketch(entry: Entry, record: EpisodeRecord) -> Trace:
    cell, roles = entry.cell, dict(entry.result.roles) if entry.result else dict[str, str]()
    agents = dict.fromkeys(agent for turn in record["turns"] for agent in turn["actions"])
    players = {agent: Player(roles.get(agent, ""), cell.model.name) for agent in agents}
    header = Header(cell.environment.id, {}, cell.method.title, len(record["turns"]), "unknown", players)
    return from_episode(recorded_episode(record), header, TaskItem(record["task"], ""))


def _steps(entry: Entry) -> int:
    """Training steps of the weights that were evaluated last."""
    trained = is_there(entry.folder / BEFORE_TRAINING) or (entry.result is not None and entry.result.train_seconds > 0)
    return entry.cell.training.steps if trained else 0


def export(run: Run, path: Path, texts: Texts = "inline", *, token_ids: bool = False) -> int:
    """Write the last evaluations of all cells of a run into one file of traces; returns their number.

    Raises:
        TraceError: A cell was run without `--traces` and has no token ids, or there are no episodes.
    """
    if token_ids and (without := [entry.cell.label for entry in run.entries if not files_of(entry)]):
        raise TraceError(
            f"{without[0]} of {str(run.folder)!r} has no token ids: a run keeps them with bench --traces; leave "
            "--token-ids out, or run it with them"
        )
    with TraceWriter(path, texts, token_ids=token_ids) as writer:
        for entry in run.entries:
            _write_last(entry, writer)
        if not writer.count:
            raise TraceError(f"{str(run.folder)!r} has no evaluated episodes yet; export it when a cell is done")
    return writer.count


def _write_last(entry: Entry, writer: TraceWriter) -> None:
    """Write the last evaluation of a cell, under its label; with token ids where they were written as it went."""
    folder = f"{entry.cell.label}/"
    if files := files_of(entry):
        for trace in _shaped(list(files.values())[-1]):
            writer.write({**trace, "trace_id": folder + trace["trace_id"]})
        return
    env = build_env(entry.cell, entry.cell.protocol, evaluation=True)
    header, items = header_of(entry.cell, env, _steps(entry)), _by_id(env)
    for record in iterate_records(entry.folder / AT_THE_END, EpisodeRecord):
        if record["task"] not in items:
            raise TraceError(f"{str(entry.folder)!r} has an episode of task {record['task']!r}, which its tasks lack")
        writer.write_episode(recorded_episode(record), header, items[record["task"]], folder=folder)


def _by_id(env: Any) -> Mapping[str, TaskItem]:
    return {item.id: item for item in env.items}
