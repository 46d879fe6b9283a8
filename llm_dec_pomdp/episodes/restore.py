"""From records back to episodes: to train on them offline, to score them again, and to play them again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from ..envs.tasks import item_of
from ..types import Completion, Episode, Event, Group, Score, TaskItem, Turn
from .header import TraceError
from .record import ENVIRONMENT, READ, Trace
from .validate import check


def to_groups(traces: Iterable[Trace]) -> list[Group]:
    """Groups of episodes of the same task, environment and protocol, for a learner's `update`; offline training.

    Args:
        traces: Of this package, with texts and token ids in them.

    Raises:
        TraceError: One is not replayable, or lacks its texts or its token ids; the message names trace and event.
    """
    groups: dict[str, list[Episode]] = {}
    for trace in traces:
        try:
            check(trace)
            episode = to_episode(trace, token_ids=True)
        except TraceError as error:
            raise TraceError(f"trace {trace.get('trace_id')!r:.80}: {error}") from error
        header = trace["events"][0]["header"]
        key = json.dumps([header[name] for name in ("environment", "protocol", "task")], sort_keys=True)
        groups.setdefault(key, []).append(episode)
    return [Group(episodes[0].item_id, tuple(episodes)) for episodes in groups.values()]


def to_episode(trace: Trace, *, token_ids: bool = False) -> Episode:
    """The inverse of `from_episode`; what agents have read stands last among the events of a turn.

    Args:
        trace: Replayable, with its texts in it.
        token_ids: Whether they are needed; without, they are 0 where the trace has only their number.

    Raises:
        TraceError: Texts or token ids are missing; the message names the event.
    """
    header = trace["events"][0]["header"]
    turns = [_turn(events, token_ids=token_ids) for events in _by_turn(trace)]
    _note_reads(trace, turns)
    return Episode(
        header["task"]["id"],
        header["text_seed"],
        tuple(Turn(**turn) for turn in turns),
        header["terminated"],
        header["share"],
    )


def task_of(trace: Trace) -> TaskItem:
    """The task of a trace.

    Raises:
        TraceError: Its texts are missing.
    """
    first = trace["events"][0]
    if "content" not in first:
        _refuse(first, "content", "the task is missing; export with texts")
    return item_of(first["content"])


def _by_turn(trace: Trace) -> Iterator[list[Mapping[str, Any]]]:
    events: Sequence[Mapping[str, Any]] = trace["events"][1:]
    for number in range(1 + max((event["turn"] for event in events), default=-1)):
        yield [event for event in events if event["turn"] == number]


def _turn(events: Sequence[Mapping[str, Any]], *, token_ids: bool) -> dict[str, Any]:
    turn: dict[str, Any] = {"observations": {}, "actions": {}, "reward": math.nan, "events": ()}
    for event in events:
        if event["type"] == "aggregate":
            turn["reward"] = _number(event["reward"])
            turn["rewards"] = _numbers(event.get("rewards", {}))
            turn["score"] = _score(event)
        elif event["type"] == "message" and event["agent"] == ENVIRONMENT:
            turn["observations"][event["to"]] = _content(event)
        elif event["type"] == "message":
            turn["actions"][event["agent"]] = _completion(event, token_ids=token_ids)
        elif "kind" in event:
            agent = event["to"] if event["type"] == "spawn" else event["agent"]
            turn["events"] = (*turn["events"], Event(event["kind"], agent, _content(event)))
    told: dict[str, str] = turn["observations"]
    turn["told"] = {agent: told.pop(agent) for agent in list(told) if agent not in turn["actions"]}
    return turn


def _note_reads(trace: Trace, turns: Sequence[dict[str, Any]]) -> None:
    """Add who was told whose text: at the turn before, as an environment says it."""
    author = {event["id"]: event["agent"] for event in trace["events"]}
    for event in trace["events"]:
        for message in event.get("reads", ()):
            turn = turns[max(0, event["turn"] - 1)]
            turn["events"] = (*turn["events"], Event(READ, event["to"], {"of": author[message]}))


def _completion(event: Mapping[str, Any], *, token_ids: bool) -> Completion:
    tokens: Mapping[str, int] = event.get("tokens", {"prompt": 0, "sampled": 0})
    if token_ids and "token_ids" not in event and "tokens" in event:
        _refuse(event, "token_ids", "it has none, and training needs them; export with token ids (bench --traces)")
    return Completion(
        _content(event),
        tuple(event.get("prompt_ids", (0,) * tokens["prompt"])),
        tuple(event.get("token_ids", (0,) * tokens["sampled"])),
        tuple(map(_number, event.get("logprobs", ()))),
        event.get("truncated", False),
        event.get("seconds", 0.0),
    )


def _content(event: Mapping[str, Any]) -> Any:
    if "content" not in event:
        _refuse(event, "content", "its text is missing; export with texts, or read the file beside its content store")
    return event["content"]


def _refuse(event: Mapping[str, Any], field: str, why: str) -> NoReturn:
    raise TraceError(f"event {event['id']!r:.60}, field {field}: {why}")


def _score(event: Mapping[str, Any]) -> Score | None:
    score = event.get("score")
    if score is None:
        return None
    parts = _numbers(score["components"]), _numbers(score["diagnostics"])
    notes = _content(event) if "content_ref" in event else event.get("content", {})
    return Score(_number(score["total"]), *parts, notes)


def _numbers(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: _number(value) for name, value in values.items()}


def _number(value: float | None) -> float:
    """What is not finite has no other word in JSON."""
    return math.nan if value is None else value
