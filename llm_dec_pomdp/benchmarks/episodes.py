"""The episode browser of the report: which of the stored episodes a page holds, and what a reader chooses them by."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..traces.page import Packed
from .lines import Line
from .runs import Entry

FIELDS = ("environment", "task", "method", "training steps", "seed", "episode")
MOST = 2_000_000  # bytes of the episodes in a page
_TOKENS = {"prompt_ids", "token_ids", "logprobs"}  # of which nobody reads

Trace = Mapping[str, Any]


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

    Of a cell that kept no traces, those of the episodes of its last evaluation, made without its environment: to read a
    report, code that a run names is not loaded.
    """
    paths = {int(re.sub(r"\D", "", path.name)): path for path in (entry.folder / "traces").glob("step-*.jsonl")}
    if paths:
        return {step: _of_file(path) for step, path in sorted(paths.items(), reverse=True)}
    return {entry.cell.training.steps if _learnt(entry) else 0: map(_of_record, entry.episodes())}


def _of_file(path: Path) -> Iterator[Trace]:
    with path.open(encoding="utf-8") as file:
        for trace in map(json.loads, file):
            events = (
                {name: value for name, value in event.items() if name not in _TOKENS} for event in trace["events"]
            )
            yield {**trace, "events": list(events)}


def _of_record(record: Mapping[str, Any]) -> Trace:
    """The trace of a line of `episodes.jsonl`: what everybody was told and said, and what it was worth."""
    events: list[dict[str, Any]] = []
    edges: list[dict[str, str]] = []

    def add(kind: str, agent: str, before: Mapping[str, str], **further: Any) -> str:
        events.append({"id": f"e{len(events)}", "t": 0.0, "type": kind, "agent": agent, **further})
        edges.extend({"src": one, "dst": events[-1]["id"], "type": why} for one, why in before.items())
        return events[-1]["id"]

    paid = add("orchestrator_decision", "environment", {}, decision="start")
    for number, turn in enumerate(record["turns"]):
        said: dict[str, str] = {}
        for agent, text in turn["actions"].items():
            seen = turn["observations"].get(agent, "")
            told = add("message", "environment", {paid: "causal"}, to=agent, turn=number, content=seen)
            tokens = dict(zip(("prompt", "sampled"), turn.get("tokens", {}).get(agent, ()), strict=False))
            said[add("message", agent, {told: "message"}, turn=number, content=text, tokens=tokens)] = "aggregate"
        total = turn.get("score", turn["reward"])  # earlier records hold rewards alone, which were the scores
        score = {} if turn["components"] is None else {"score": {"total": total, "components": turn["components"]}}
        notes = {"content": turn["notes"]} if turn.get("notes") else {}
        paid = add("aggregate", "environment", said, turn=number, reward=turn["reward"], **score, **notes)
    task = str(record["task"])
    tokens = sum(event.get("tokens", {}).get("sampled", 0) for event in events)
    return {
        "trace_id": f"{task}/{record.get('seed', 0)}",
        "task_id": task,
        "events": events,
        "edges": edges,
        "rewards": {"team": record["return"]},
        "costs": {"tokens": tokens},
    }
