"""Conversion of environments to JSON and back, between a server and its clients.

NaN and infinities, which JSON does not have, are written as strings that `float` can parse.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from numbers import Real
from typing import Any, cast

from ..envs import TextDecPOMDP
from ..envs.episode import Outcome, Transition
from ..envs.facts import Facts
from ..types import Event, Excerpt, Message, Scale, Score, Tool

Data = dict[str, Any]
MOST_BYTES = 1 << 24  # bytes of a message


def to_text(data: Mapping[str, Any]) -> str:
    """Return JSON in ASCII, which can also represent lone surrogates.

    Raises:
        ValueError, TypeError: JSON cannot hold the data.
    """
    return json.dumps(data, allow_nan=False, separators=(",", ":"))


def from_text(text: bytes | str) -> Data:
    """Return the object of a JSON text.

    Raises:
        ValueError: The text is not a JSON object.
    """
    try:
        data = json.loads(text, parse_constant=float)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError(f"it is a {type(data).__name__}, not an object")
    return data  # pyright: ignore[reportUnknownVariableType]  # keys of JSON are texts


def plain(value: Any) -> Any:
    """Return a value as JSON: dataclasses as objects, tuples as lists, sets as sorted lists."""
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


def from_outcome(outcome: Outcome) -> Data:
    """Return the outcome of a reset or a step without its hidden state."""
    after = outcome.transition
    events = [[event.kind, event.agent, event.details] for event in after.events]
    asked = None if outcome.asked is None else sorted(outcome.asked)
    return plain(replace(outcome, asked=asked, transition=replace(after, events=events, state=None)))


def to_outcome(data: Mapping[str, Any]) -> Outcome:
    """Return the outcome that `from_outcome` wrote."""
    texts = data["observations"]
    messages = {agent: text if isinstance(text, str) else Message(*text) for agent, text in texts.items()}
    after, score = data["transition"], data["transition"]["score"]
    if score is not None:
        numbers = _numbers(score["components"]), _numbers(score["diagnostics"])
        score = Score(_number(score["total"]), *numbers, dict(score["notes"]))
    transition = Transition(
        None,
        _number(after["reward"]),
        score,
        bool(after["terminated"]),
        None if after["rewards"] is None else _numbers(after["rewards"]),
        tuple(Event(*event) for event in after["events"]),
        frozenset(after["reset_history"]),
    )
    return Outcome(messages, transition, data["asked"], data["agents"])


# --- environments -----------------------------------------------------------------------------------------------------


def changeable(env: TextDecPOMDP) -> Sequence[str]:
    """Return the hidden fields of tasks that a client may change: none if the code sandbox runs them."""
    return () if env.facts.judges_code else env.facts.hidden_fields


def description(env: TextDecPOMDP) -> Data:
    """Return the data of an environment for a client, without tasks; scripts and a judge are not served."""
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
    """Return the facts of a `description`."""
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


def to_tool(data: list[Any]) -> Tool:
    """Return the tool that was written as a list of its fields."""
    name, description, parameters, schema = data
    return Tool(name, description, tuple((str(n), str(about)) for n, about in parameters), schema)
