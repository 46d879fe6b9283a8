"""Traces written by hand, by the published schema with our further keys."""

from __future__ import annotations

from typing import Any

Trace = dict[str, Any]


def trace(
    events: list[dict[str, Any]], edges: list[tuple[str, str, str]], name: str = "team/1", **further: Any
) -> Trace:
    """A trace of these events and edges; times and ids are given where they are missing."""
    numbered = [{"id": f"e{number}", "t": float(number), **event} for number, event in enumerate(events)]
    joined = [{"src": source, "dst": goal, "type": kind} for source, goal, kind in edges]
    costs = {"tokens": 0, "wall_clock_s": 0.0}
    return {
        "trace_id": name,
        "task_id": "letter",
        "events": numbered,
        "edges": joined,
        "rewards": {},
        "costs": costs,
    } | further


def team(answer: str = "The letter lies in Graz.", name: str = "team/1", *, third: bool = False) -> Trace:
    """Two agents, of which the second reads the first, sends a searcher and is paid."""
    events: list[dict[str, Any]] = [
        {"type": "orchestrator_decision", "agent": "environment", "decision": "start", "header": {"format": 1}},
        {"type": "message", "agent": "environment", "to": "ada", "turn": 0, "content": "Where is the letter?"},
        {
            "type": "message",
            "agent": "ada",
            "turn": 0,
            "content": "I do not know.",
            "tokens": {"prompt": 9, "sampled": 5},
        },
        {"type": "message", "agent": "environment", "to": "bob", "turn": 1, "content": "Ada wrote:\nI do not know."},
        {"type": "message", "agent": "bob", "turn": 1, "content": "Searching.", "tokens": {"prompt": 8, "sampled": 2}},
        {
            "type": "spawn",
            "agent": "bob",
            "to": "searcher",
            "role": "search",
            "turn": 1,
            "content": {"subtask": "find it"},
        },
        {"type": "tool_call", "agent": "searcher", "tool": "catalogue", "turn": 1, "content": {"input": "letter 1871"}},
        {
            "type": "tool_result",
            "agent": "searcher",
            "tool": "catalogue",
            "turn": 1,
            "content": {"output": "Box 14, Graz"},
        },
        {"type": "return", "agent": "searcher", "to": "bob", "turn": 1, "content": {"report": "Graz it is"}},
        {"type": "despawn", "agent": "searcher", "turn": 1},
        {"type": "message", "agent": "bob", "turn": 2, "content": answer, "tokens": {"prompt": 30, "sampled": 6}},
        {
            "type": "aggregate",
            "agent": "environment",
            "turn": 2,
            "reward": 0.75,
            "score": {"total": 0.75, "components": {"right": 0.5, "short": 0.25}},
        },
    ]
    if third:
        events.append({"type": "message", "agent": "ada", "turn": 3, "content": "Thank you."})
    edges = [
        *(("e0", "e1", "temporal"), ("e1", "e2", "message"), ("e2", "e4", "message"), ("e3", "e4", "message")),
        *(("e4", "e5", "causal"), ("e5", "e6", "spawn"), ("e6", "e7", "return"), ("e7", "e8", "causal")),
        *(("e8", "e10", "return"), ("e10", "e11", "aggregate")),
    ]
    return trace(events, edges, name, rewards={"team": 0.75}, costs={"tokens": 13, "wall_clock_s": 2.5})
