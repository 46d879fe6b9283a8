"""Conversion of traces back to episodes, for offline training, rescoring and replay."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    NoReturn,
    NotRequired,  # pydantic reads that of typing from Python 3.12 on
    TypeVar,
)

import pydantic
from typing_extensions import TypedDict

from ..envs.tasks import item_of
from ..storage.reading import conform
from ..types import Completion, Episode, Event, Group, Score, TaskItem, Turn, Usage
from .header import TraceError
from .record import ENVIRONMENT, READ, Trace
from .validate import check

_Count = Annotated[int, pydantic.Field(ge=0, le=1 << 20)]  # number of tokens; missing ids are filled with 0
_Reported = Annotated[int, pydantic.Field(ge=0)] | None  # number of tokens that a server reported
_Number = float | None
T = TypeVar("T")
_Strict = pydantic.ConfigDict(strict=True)


class _Tokens(TypedDict):
    prompt: _Count
    sampled: _Count
    thought: NotRequired[_Count]


class _Usage(TypedDict):
    prompt: _Reported
    sampled: _Reported
    reasoning: _Reported


class _Score(TypedDict):
    total: _Number
    components: dict[str, _Number]
    diagnostics: dict[str, _Number]


class _Task(TypedDict):
    id: str


class _Header(TypedDict):
    task: _Task
    text_seed: int
    share: float
    terminated: bool


class _Event(TypedDict):
    __pydantic_config__ = _Strict  # type: ignore[misc]
    id: str
    type: str
    agent: str
    header: NotRequired[_Header]
    turn: NotRequired[int]
    to: NotRequired[str]
    kind: NotRequired[str]
    content: NotRequired[Any]
    reads: NotRequired[list[str]]
    tokens: NotRequired[_Tokens]
    usage: NotRequired[_Usage]
    prompt_ids: NotRequired[list[int]]
    token_ids: NotRequired[list[int]]
    logprobs: NotRequired[list[_Number]]
    seconds: NotRequired[float]
    truncated: NotRequired[bool]
    thought: NotRequired[str]
    reward: NotRequired[_Number]
    rewards: NotRequired[dict[str, _Number]]
    score: NotRequired[_Score]


class _Record(TypedDict):
    """The fields of a trace that are read here; `validate` checks more."""

    events: Annotated[list[_Event], pydantic.Field(min_length=1)]


def to_groups(traces: Iterable[Trace]) -> list[Group]:
    """Return groups of episodes with the same task, environment and protocol, for offline training by `update`.

    Args:
        traces: Traces of this package with texts and token ids.

    Raises:
        TraceError: A trace is not replayable, or lacks texts or token ids; the message names trace and event.
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
    """Return the episode of a trace: the inverse of `from_episode`, except that `read` events are last in a turn.

    Args:
        trace: A trace with its texts.
        token_ids: Whether token ids are required. Otherwise ids are 0 if the trace has only their number.

    Raises:
        TraceError: The trace is not from this package, or lacks texts or token ids; the message names the event.
        FileError: A field has another type; the message names it.
    """
    events = conform(trace, _Record, "the trace")["events"]
    if (header := events[0].get("header")) is None:
        _refuse(events[0], "header", "it is missing, so this is no trace of this package; give a trace with a header")
    turns: dict[int, dict[str, Any]] = {}
    for number, happened in _by_turn(events[1:]).items():
        turns[number] = _turn(happened, token_ids=token_ids)
    _note_reads(events, turns)
    played = tuple(Turn(**turn) for turn in turns.values())
    return Episode(header["task"]["id"], header["text_seed"], played, header["terminated"], header["share"])


def task_of(trace: Trace) -> TaskItem:
    """Return the task of a trace.

    Raises:
        TraceError: The trace has no texts.
    """
    first = trace["events"][0]
    if "content" not in first:
        _refuse(first, "content", "the task is missing; export with texts")
    return item_of(first["content"])


def _by_turn(events: Iterable[_Event]) -> dict[int, list[_Event]]:
    turns: dict[int, list[_Event]] = {}
    for event in events:
        turns.setdefault(event.get("turn", 0), []).append(event)
    return turns


def _turn(events: Sequence[_Event], *, token_ids: bool) -> dict[str, Any]:
    turn: dict[str, Any] = {"observations": {}, "actions": {}, "reward": math.nan, "events": ()}
    for event in events:
        if event["type"] == "aggregate":
            turn["reward"] = _number(event.get("reward"))
            turn["rewards"] = _numbers(event.get("rewards", {}))
            turn["score"] = _score(event)
        elif event["type"] == "message" and event["agent"] == ENVIRONMENT:
            turn["observations"][_to(event)] = _content(event, str)
        elif event["type"] == "message":
            turn["actions"][event["agent"]] = _completion(event, token_ids=token_ids)
        elif "kind" in event:
            agent = _to(event) if event["type"] == "spawn" else event["agent"]
            turn["events"] = (*turn["events"], Event(event["kind"], agent, _content(event, dict[str, str])))
    observations: dict[str, str] = turn["observations"]
    turn["unasked_observations"] = {
        agent: observations.pop(agent) for agent in list(observations) if agent not in turn["actions"]
    }
    return turn


def _note_reads(events: Sequence[_Event], turns: Mapping[int, dict[str, Any]]) -> None:
    """Add the `read` events to the previous turn, where environments report them."""
    author = {event["id"]: event["agent"] for event in events}
    for event in events:
        for message in event.get("reads", ()):
            turn = turns.get(max(0, event.get("turn", 0) - 1))
            if turn is None or message not in author:
                _refuse(event, "reads", f"there is no event {message!r:.60} before it")
            turn["events"] = (*turn["events"], Event(READ, _to(event), {"of": author[message]}))


def _completion(event: _Event, *, token_ids: bool) -> Completion:
    tokens = event.get("tokens", {"prompt": 0, "sampled": 0})
    if token_ids and "token_ids" not in event and "tokens" in event:
        _refuse(event, "token_ids", "it has none, and training needs them; export with token ids (bench --traces)")
    return Completion(
        _content(event, str),
        tuple(event.get("prompt_ids", (0,) * tokens["prompt"])),
        tuple(event.get("token_ids", (0,) * tokens["sampled"])),
        tuple(map(_number, event.get("logprobs", ()))),
        event.get("truncated", False),
        event.get("seconds", 0.0),
        event.get("thought", ""),
        _usage(event["usage"]) if "usage" in event else None,
        tokens.get("thought", 0),
    )


def _usage(reported: _Usage) -> Usage:
    return Usage(_number(reported["prompt"]), _number(reported["sampled"]), _number(reported["reasoning"]))


def _to(event: _Event) -> str:
    return event["to"] if "to" in event else _refuse(event, "to", "it has none")


def _content(event: _Event, kind: type[T]) -> T:
    if "content" not in event:
        _refuse(event, "content", "its text is missing; export with texts, or copy the content store next to the file")
    return conform(event["content"], kind, f"event {event['id']!r:.60}, field content")


def _refuse(event: Mapping[str, Any], field: str, why: str) -> NoReturn:
    raise TraceError(f"event {event['id']!r:.60}, field {field}: {why}")


def _score(event: _Event) -> Score | None:
    if (score := event.get("score")) is None:
        return None
    components, diagnostics = _numbers(score["components"]), _numbers(score["diagnostics"])
    notes = _content(event, dict[str, str]) if "content" in event or "content_ref" in event else {}
    return Score(_number(score["total"]), components, diagnostics, notes)


def _numbers(values: Mapping[str, _Number]) -> dict[str, float]:
    return {name: _number(value) for name, value in values.items()}


def _number(value: _Number) -> float:
    """Return NaN for null, which JSON has in place of numbers that are not finite."""
    return math.nan if value is None else value
