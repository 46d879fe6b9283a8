"""Environments as plain data: what passes between a server and its clients, and back.

Numbers that JSON does not have (NaN, infinities) are written as texts, as `float` reads them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ..envs import TextDecPOMDP
from ..envs.episode import Outcome
from ..types import Event, Message, Score, TaskItem, Tool

Data = dict[str, Any]
MOST_BYTES = 1 << 24  # of one request


def to_bytes(data: Mapping[str, Any]) -> bytes:
    """JSON in ASCII, so that halves of characters pass too.

    Raises:
        ValueError, TypeError: It is no plain data.
    """
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii")


def from_bytes(text: bytes | str) -> Data:
    """What `to_bytes` made.

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


def number(value: float) -> float | str:
    """A number as JSON can hold it."""
    if isinstance(value, int):
        return value
    return float(value) if math.isfinite(value) else str(float(value))


def numbers(values: Mapping[str, float]) -> Data:
    """Numbers by name."""
    return {name: number(value) for name, value in values.items()}


def _number(data: float | str) -> float:
    return float(data) if isinstance(data, str) else data


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: _number(value) for name, value in values.items()}


# --- nouns ------------------------------------------------------------------------------------------------------------


def from_item(item: TaskItem) -> Data:
    """A task, references included."""
    return {
        "id": item.id,
        "prompt": item.prompt,
        "split": item.split,
        "reference": list(item.reference),
        "fields": dict(item.fields),
    }


def to_item(data: Mapping[str, Any]) -> TaskItem:
    """The task that `from_item` wrote."""
    return TaskItem(data["id"], data["prompt"], data["split"], tuple(data["reference"]), dict(data["fields"]))


def _from_score(score: Score | None) -> Data | None:
    if score is None:
        return None
    parts, diagnostics = numbers(score.components), numbers(score.diagnostics)
    return {
        "total": number(score.total),
        "components": parts,
        "diagnostics": diagnostics,
        "notes": dict(score.notes),
    }


def _to_score(data: Mapping[str, Any] | None) -> Score | None:
    if data is None:
        return None
    components, diagnostics = _numbers(data["components"]), _numbers(data["diagnostics"])
    return Score(_number(data["total"]), components, diagnostics, dict(data["notes"]))


def from_outcome(outcome: Outcome) -> Data:
    """What a reset or a step produced; its state stays where it is."""
    return {
        "told": {agent: list(told) if isinstance(told, Message) else told for agent, told in outcome.told.items()},
        "score": _from_score(outcome.score),
        "reward": number(outcome.reward),
        "terminated": outcome.terminated,
        "asked": None if outcome.asked is None else sorted(outcome.asked),
        "agents": None if outcome.agents is None else list(outcome.agents),
        "rewards": None if outcome.rewards is None else numbers(outcome.rewards),
        "events": [[event.kind, event.agent, dict(event.details)] for event in outcome.events],
        "anew": sorted(outcome.anew),
    }


def to_outcome(data: Mapping[str, Any]) -> Outcome:
    """The outcome that `from_outcome` wrote."""
    told = {agent: text if isinstance(text, str) else Message(*text) for agent, text in data["told"].items()}
    return Outcome(
        told,
        _to_score(data["score"]),
        _number(data["reward"]),
        bool(data["terminated"]),
        asked=data["asked"],
        agents=data["agents"],
        rewards=None if data["rewards"] is None else _numbers(data["rewards"]),
        events=tuple(Event(*event) for event in data["events"]),
        anew=frozenset(data["anew"]),
    )


def from_tool(tool: Tool) -> list[Any]:
    """A tool."""
    return [tool.name, tool.description, [list(pair) for pair in tool.parameters]]


def to_tool(data: list[Any]) -> Tool:
    """The tool that `from_tool` wrote."""
    name, description, parameters = data
    return Tool(name, description, tuple((str(n), str(what)) for n, what in parameters))


# --- environments -----------------------------------------------------------------------------------------------------

# What an environment says of itself, by the names that `TextDecPOMDP` has for it.
PLAIN = (
    "possible_agents",
    "roles",
    "max_turns",
    "components",
    "diagnostics",
    "reference_share",
    "silence_is_lowest",
    "joint_reward",
    "hidden_fields",
    "hears_others",
    "parts_per_action",
    "vocabulary",
    "hierarchical",
)
# Of these some follow max_turns.
VALUES = ("score_range", "reward_range", "max_return", "optimum", "score_scale")


def description(env: TextDecPOMDP) -> Data:
    """All that an environment says of itself, beside its tasks."""
    data: Data = {name: _plain(getattr(env, name)) for name in PLAIN}
    data |= {name: _value(getattr(env, name)) for name in VALUES}
    data["name"] = env.metadata["name"]
    data["menus"] = {agent: list(env.menu(agent)) for agent in env.possible_agents}
    data["tools"] = {agent: [from_tool(tool) for tool in env.tools(agent)] for agent in env.possible_agents}
    return data


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) else list(value)


def _value(value: float | tuple[float, float] | None) -> Any:
    if value is None:
        return None
    return [number(bound) for bound in value] if isinstance(value, tuple) else number(value)
