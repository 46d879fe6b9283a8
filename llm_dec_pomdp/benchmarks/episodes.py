"""The episode browser of the report: which of the stored episodes a page holds, and what a reader chooses them by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..storage.runfolder import iterate_lines
from ..traces import Header, Player, Trace, from_episode, read
from ..traces.page import Packed
from ..types import TaskItem
from .lines import Line
from .records import recorded_episode
from .runs import Entry
from .traces import checkpoints_of

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
    """The traces of every evaluation that a cell kept, by training steps, each read as it is asked for.

    Of a cell that kept no traces, those of the episodes of its last evaluation.
    """
    if paths := checkpoints_of(entry):
        return {step: map(_without_tokens, read(path)) for step, path in sorted(paths.items(), reverse=True)}
    steps = entry.cell.training.steps if _learnt(entry) else 0
    return {steps: map(partial(_of_record, entry, steps), iterate_lines(entry.folder / "episodes.jsonl"))}


def _without_tokens(trace: Trace) -> Trace:
    shown = [{name: event[name] for name in event if name not in _TOKENS} for event in trace["events"]]
    return {**trace, "events": shown}


def _of_record(entry: Entry, steps: int, record: Mapping[str, Any]) -> Trace:
    """The trace of a stored episode without its environment: to read a report, code that a run names is not loaded."""
    config = entry.cell.environment
    agents = dict.fromkeys(agent for turn in record["turns"] for agent in turn["actions"])
    players = dict.fromkeys(agents, Player("", entry.cell.model.name, steps))
    header = Header(config.id, config.options, "", len(record["turns"]), "unknown", players)
    whole = {"seed": 0, "terminated": False, **record}  # the first records had neither
    return from_episode(recorded_episode(whole), header, TaskItem(str(record["task"]), ""))
