"""Environments as plain data: what passes between a server and its clients, and back.

Numbers that JSON does not have (NaN, infinities) are written as texts, as `float` reads them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from numbers import Real
from typing import Any, NamedTuple, cast

from ..envs import TextDecPOMDP
from ..envs.episode import Outcome, Transition
from ..envs.facts import Facts
from ..types import Event, Excerpt, Message, Scale, Score, Tool

Data = dict[str, Any]
MOST_BYTES = 1 << 24  # of one request


class Reply(NamedTuple):
    """What is answered over HTTP.

    Attributes:
        status: Of HTTP.
        body: JSON, or the sentence of a refusal.
        session: The name of a session of MCP that begins with it; "": none does.
    """

    status: int
    body: bytes = b""
    session: str = ""


def to_bytes(data: Mapping[str, Any]) -> bytes:
    """JSON in ASCII, so that halves of characters pass too.

    Raises:
        ValueError, TypeError: It is no plain data.
    """
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii")


def from_bytes(text: bytes | str) -> Data:
    """The object that `to_bytes` wrote.

    Raises:
        ValueError: It is no JSON object.
    """
    try:
        data = json.loads(text, parse_constant=float)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError(f"it is a {type(data).__name__}, not an object")
    return data  # pyright: ignore[reportUnknownVariableType]  # keys of JSON are texts


def plain(value: Any) -> Any:
    """A value as JSON can hold it: the fields of dataclasses by name, those of tuples in their order, sets sorted."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (set, frozenset)):
        return sorted(cast("Iterable[str]", value))
    if is_dataclass(value):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    return [plain(inner) for inner in value]


def _number(data: float | str) -> float:
    return float(data) if isinstance(data, str) else data


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: _number(value) for name, value in values.items()}


def _to_score(data: Mapping[str, Any] | None) -> Score | None:
    if data is None:
        return None
    components, diagnostics = _numbers(data["components"]), _numbers(data["diagnostics"])
    return Score(_number(data["total"]), components, diagnostics, dict(data["notes"]))


def from_outcome(outcome: Outcome) -> Data:
    """What a reset or a step produced; its state stays where it is."""
    after = outcome.transition
    events = [[event.kind, event.agent, event.details] for event in after.events]
    asked = None if outcome.asked is None else sorted(outcome.asked)
    return plain(replace(outcome, asked=asked, transition=replace(after, events=events, state=None)))


def to_outcome(data: Mapping[str, Any]) -> Outcome:
    """The outcome that `from_outcome` wrote."""
    messages = {agent: text if isinstance(text, str) else Message(*text) for agent, text in data["told"].items()}
    after = data["transition"]
    transition = Transition(
        None,
        _number(after["reward"]),
        _to_score(after["score"]),
        bool(after["terminated"]),
        None if after["rewards"] is None else _numbers(after["rewards"]),
        tuple(Event(*event) for event in after["events"]),
        frozenset(after["anew"]),
    )
    return Outcome(messages, transition, data["asked"], data["agents"])


def to_tool(data: list[Any]) -> Tool:
    """The tool that was written as a list of its fields."""
    name, description, parameters, schema = data
    return Tool(name, description, tuple((str(n), str(what)) for n, what in parameters), schema)


# --- environments -----------------------------------------------------------------------------------------------------


def changeable(env: TextDecPOMDP) -> Sequence[str]:
    """Hidden fields that a client may change in tasks: none where they are tests.

    A judge runs tests, and judges the programs of other clients after them.
    """
    return () if env.facts.judges_code else env.facts.hidden_fields


def description(env: TextDecPOMDP) -> Data:
    """All that an environment says of itself, beside its tasks; of hidden fields, those that may be changed.

    Scripts are not served, and neither is a judge.
    """
    known = replace(env.facts, hidden_fields=tuple(changeable(env)), scripts=(), judge=None)
    return plain(
        {
            "facts": known,
            "possible_agents": env.possible_agents,
            "max_turns": env.max_turns,
            "choices": {agent: env.choices(agent) for agent in env.possible_agents},
            "tools": {agent: env.tools(agent) for agent in env.possible_agents},
        }
    )


def to_facts(data: Mapping[str, Any]) -> Facts:
    """The facts of a `description`."""
    known: dict[str, Any] = {n: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for n, v in data.items()}
    for name in ("score_range", "turn_range", "scale"):
        known[name] = known[name] and tuple(map(_number, known[name]))
    for name in ("best", "optimum"):
        known[name] = None if known[name] is None else _number(known[name])
    known["scale"] = known["scale"] and Scale(*known["scale"])
    if known["excerpt"] is not None:
        start, requests = known["excerpt"]
        known["excerpt"] = Excerpt(str(start), tuple((str(role), str(request)) for role, request in requests))
    return Facts(**known)
