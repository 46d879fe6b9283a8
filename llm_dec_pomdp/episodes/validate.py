"""Validation of traces against two profiles.

"schema" is the schema of arXiv:2605.02801. It accepts traces that no run can produce: repeated ids, edges to missing
events, cycles, NaN. "replayable" refuses these, and everything that would prevent the replay of a trace of this
package.
"""

from __future__ import annotations

import functools
import graphlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Literal, get_args

from ..registries import nearest
from .files import ContentStore
from .header import TraceError, digest, plain_text
from .record import ENVIRONMENT, Trace, tokens_in

Profile = Literal["schema", "replayable"]
SHOWN = 20  # maximum number of problems reported for a trace


def validate(trace: Trace, profile: Profile = "replayable", store: ContentStore | None = None) -> list[str]:
    """Return the problems of a trace, as at most 20 sentences that name event and field; [] for a valid trace.

    Args:
        trace: A trace of any system.
        profile: "schema" or "replayable".
        store: The content store of its references.

    Raises:
        ValueError: The profile is unknown.
    """
    if profile not in get_args(Profile):
        raise ValueError(f"profile is {profile!r}, which does not exist; {nearest(profile, get_args(Profile))}")
    if profile == "schema":
        return _first_problems(trace, _published)
    references = functools.partial(_references, store=store)
    return _first_problems(trace, _published, _numbers, _replayable, _graph, _course, _costs, references)


def profile_of(trace: Trace) -> Profile:
    """Return the profile for a trace: "replayable" if it has a header of this package, else "schema"."""
    events = trace.get("events")
    first = events[0] if isinstance(events, list) and events else None  # pyright: ignore[reportUnknownVariableType]
    return "replayable" if isinstance(first, dict) and "header" in first else "schema"


def check_graph(trace: Trace) -> None:
    """Check a trace of any system against the published schema, and that it is an acyclic graph ordered in time.

    Raises:
        TraceError: The message names event and field.
    """
    if problems := _first_problems(trace, _published, _numbers, _graph):
        raise TraceError(problems[0])


def _first_problems(trace: Trace, *looks: Callable[[Trace], Iterator[str]]) -> list[str]:
    """Return the problems of the first check that fails; each check relies on the previous ones."""
    for look in looks:
        if problems := list(itertools.islice(look(trace), SHOWN)):
            return problems
    return []


def check(trace: Trace) -> None:
    """Check that a trace is replayable.

    Raises:
        TraceError: The message names event and field.
    """
    if problems := validate(trace):
        raise TraceError(problems[0])


# --- schemas ----------------------------------------------------------------------------------------------------------


@functools.cache
def _schema(name: str) -> Any:
    from jsonschema import Draft202012Validator

    text = (resources.files("llm_dec_pomdp.episodes") / "schema" / f"{name}.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


def _against(name: str, trace: Trace) -> Iterator[str]:
    for error in _schema(name).iter_errors(trace):
        message = error.message if len(error.message) < 200 else f"{error.message[:90]} ... {error.message[-90:]}"
        yield f"{_place(trace, list(error.absolute_path))}: {message}"


_published, _replayable = functools.partial(_against, "trace_schema"), functools.partial(_against, "replayable")


def _place(trace: Trace, path: Sequence[str | int]) -> str:
    """Return a path in a trace in words: "event 'e3', field tokens.prompt"."""
    if len(path) < 2 or path[0] not in ("events", "edges"):
        return f"field {'.'.join(map(str, path))}" if path else "the trace"
    number = int(path[1])
    field = f", field {'.'.join(map(str, path[2:]))}" if len(path) > 2 else ""
    if path[0] == "edges":
        return f"edge {number}{field}"
    event = trace["events"][number]
    return (
        f"event {event['id']!r:.60}{field}" if isinstance(event, dict) and "id" in event else f"event {number}{field}"
    )


# --- conditions that a JSON schema cannot express ---------------------------------------------------------------------


def _numbers(trace: Trace) -> Iterator[str]:
    """Check that all numbers are finite."""

    def look(value: Any, path: tuple[str | int, ...]) -> Iterator[str]:
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{_place(trace, path)}: {value!r} is not a finite number"
        elif isinstance(value, (dict, list)):
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                yield from look(inner, (*path, key))  # pyright: ignore[reportUnknownArgumentType]

    return look(trace, ())


def _graph(trace: Trace) -> Iterator[str]:
    """Check that ids are unique, and that edges lead from earlier to later events."""
    events: dict[str, Mapping[str, Any]] = {}
    for event in trace["events"]:
        if event["id"] in events:
            yield f"event {event['id']!r:.60}, field id: another event has it too"
        events[event["id"]] = event
    order = graphlib.TopologicalSorter[str]()
    for number, edge in enumerate(trace["edges"]):
        missing = [end for end in ("src", "dst") if edge[end] not in events]
        for end in missing:
            yield f"edge {number}, field {end}: there is no event {edge[end]!r:.60}"
        if missing:
            continue
        order.add(edge["dst"], edge["src"])
        before, behind = events[edge["src"]]["t"], events[edge["dst"]]["t"]
        if before > behind:
            yield (
                f"event {edge['dst']!r:.60}, field t: it is {behind}, and event {edge['src']!r:.60}, which by edge "
                f"{number} caused it, is at {before}"
            )
    try:
        order.prepare()
    except graphlib.CycleError as error:
        yield f"event {error.args[1][0]!r:.60}, field id: edges lead from it back to itself"


def _course(trace: Trace) -> Iterator[str]:
    """Check the order of turns, that agents act between spawn and despawn, and that results follow calls."""
    events: Sequence[Mapping[str, Any]] = trace["events"]
    header = events[0]["header"]
    players = header["players"]
    parts = (
        header["protocol"] == "centralized"
    )  # a single agent acts as each agent of a hierarchy, and events name these
    spawned = {event["to"] for event in events if event["type"] == "spawn"}
    there, gone, open_calls, turn = set[str](), set[str](), Counter[tuple[str, str]](), 0
    for event in events[1:]:
        place, agent = f"event {event['id']!r:.60}", str(event["agent"])
        if event["turn"] < turn:
            yield f"{place}, field turn: it is {event['turn']}, after events of turn {turn}"
        turn = event["turn"]
        for field in ("agent", "to"):
            name = event.get(field, ENVIRONMENT)
            if name != ENVIRONMENT and name not in players and (not parts or event["type"] == "message"):
                yield f"{place}, field {field}: {name!r:.60} is no player of the header; {nearest(name, players)}"
        if agent in spawned - there:
            yield f"{place}, field agent: {agent!r:.60} acts before its spawn"
        if agent in gone:
            yield f"{place}, field agent: {agent!r:.60} acts after its despawn"
        call = (agent, str(event.get("tool")))
        if event["type"] == "spawn":
            there.add(event["to"])
        elif event["type"] == "despawn":
            gone.add(agent)
        elif event["type"] == "tool_call":
            open_calls[call] += 1
        elif event["type"] == "tool_result":
            open_calls[call] -= 1
            if open_calls[call] < 0:
                yield f"{place}, field tool: a result of {event['tool']!r:.60}, which {agent} has not called before"


def _costs(trace: Trace) -> Iterator[str]:
    """Check that the costs equal the sums over the events."""
    events: Sequence[Mapping[str, Any]] = trace["events"]
    messages = [event for event in events if event["type"] == "message" and event["agent"] != ENVIRONMENT]
    counted = {
        "messages": len(messages),
        "tool_calls": sum(event["type"] == "tool_call" for event in events),
        "tokens": tokens_in(messages),
        "wall_clock_s": max(event["t"] for event in events),
    }
    for name, value in counted.items():
        if trace["costs"].get(name) != value:
            yield f"field costs.{name}: it is {trace['costs'].get(name)!r}, but the events have {value}"


def _references(trace: Trace, store: ContentStore | None) -> Iterator[str]:
    """Check that every reference resolves, and that the task is the one of the header."""
    events: Sequence[Mapping[str, Any]] = trace["events"]
    ids = {event["id"] for event in events}
    for event in events:
        for field in ("content_ref", "thought_ref"):
            reference = event.get(field)
            if reference is not None and (store is None or store.get(reference) is None):
                where = f"not in {str(store.path)!r}" if store else "in no content store, because none was given"
                yield f"event {event['id']!r:.60}, field {field}: {reference!r:.80} is {where}"
    for event in events[1:]:
        for other in event.get("reads", ()):
            if other not in ids:
                yield f"event {event['id']!r:.60}, field reads: there is no event {other!r:.60}"
        tokens, token_ids = event.get("tokens"), event.get("token_ids")
        if tokens and token_ids is not None:
            for name, value, wanted in (
                ("token_ids", token_ids, tokens["sampled"]),
                ("logprobs", event.get("logprobs", token_ids), len(token_ids)),
                ("prompt_ids", event.get("prompt_ids", ()), tokens["prompt"]),
            ):
                if len(value) != wanted:
                    yield f"event {event['id']!r:.60}, field {name}: it has {len(value)} entries, not {wanted}"
    task, content = events[0]["header"]["task"], events[0].get("content")
    named = events[0].get("content_ref") if content is None else digest(plain_text(content))
    place = f"event {events[0]['id']!r:.60}, field header.task"
    if named is not None and named != task["digest"]:
        yield f"{place}.digest: it is {task['digest']}, but the digest of the task is {named}"
    if content is not None and content["id"] != task["id"]:
        yield f"{place}.id: it is {task['id']!r:.60}, but the id of the task is {content['id']!r:.60}"
