"""The episodes that a cell stored, as traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .runs import Entry


def traces_of(entry: Entry) -> dict[int, Iterator[dict[str, Any]]]:
    """Training steps of the weights -> the traces of that evaluation, read as they are asked for."""
    trained = entry.result is not None and entry.result.train_seconds > 0
    return {entry.cell.training.steps if trained else 0: map(_of_record, entry.episodes())}


def _of_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The trace of an episode as `episodes.jsonl` holds it."""
    events: list[dict[str, Any]] = []
    edges: list[dict[str, str]] = []

    def add(**event: Any) -> str:
        events.append({"id": f"e{len(events)}", "t": 0.0, **event})
        return events[-1]["id"]

    before = add(type="orchestrator_decision", agent="environment", decision="start")
    for number, turn in enumerate(record["turns"]):
        said: list[str] = []
        for agent, text in turn["actions"].items():
            seen = turn["observations"].get(agent, "")
            told = add(type="message", agent="environment", to=agent, turn=number, content=seen)
            said.append(add(type="message", agent=agent, turn=number, content=text))
            edges += [{"src": before, "dst": told, "type": "causal"}, {"src": told, "dst": said[-1], "type": "message"}]
        before = add(type="aggregate", agent="environment", turn=number, reward=turn["reward"])
        if turn.get("components") is not None:
            total = turn.get("score", turn["reward"])
            events[-1] |= {"score": {"total": total, "components": turn["components"]}, "content": turn.get("notes")}
        edges += [{"src": one, "dst": before, "type": "aggregate"} for one in said]
    costs = {"tokens": 0, "wall_clock_s": 0.0}
    task = str(record["task"])
    return {
        "trace_id": f"{task}/{record.get('seed', 0)}",
        "task_id": task,
        "system": "llm_dec_pomdp",
        "events": events,
        "edges": edges,
        "rewards": {"team": record["return"]},
        "costs": costs,
    }
