"""Replay of a trace: its actions are played in its environment, and the results are compared bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..envs.base import TextDecPOMDP
from ..episodes import Header, Player, Trace, check, environment_of, from_episode, task_of, to_episode
from ..types import Episode, Turn
from .base import agents_asked, step_envs

# Fields that were measured during generation; an environment does not reproduce them.
_MEASURED = {"t", "seconds", "tokens", "usage", "truncated", "prompt_ids", "token_ids", "logprobs", "header"}


def replay(trace: Trace, env: TextDecPOMDP | None = None) -> str:
    """Replay the recorded actions and compare every observation, reward, component and event.

    Args:
        trace: A replayable trace with its texts.
        env: The environment with its protocol. Default: it is made from the header of the trace, if it is registered;
            code that a file names is never run.

    Returns:
        The first difference, in a sentence that names the event and field; "" if there is none.

    Raises:
        TraceError: The trace is not replayable, or its texts are missing.
    """
    check(trace)
    first: Mapping[str, Any] = trace["events"][0]
    recorded, header, item = to_episode(trace), first["header"], task_of(trace)
    playing = (env or environment_of(header)).with_items([item]).fork()
    playing.reset(seed=header["seed"], options={"task_id": item.id})
    players = {agent: Player(**player) for agent, player in header["players"].items()}
    if unknown := sorted(set(playing.possible_agents) ^ players.keys()):
        return (
            f"event {first['id']!r}, field header.players: the agents differ from the environment's in "
            f"{', '.join(unknown)}"
        )
    turns, terminated, note = _play(playing, recorded)
    again = Episode(item.id, recorded.seed, tuple(turns), terminated, recorded.share)
    topology, protocol = trace.get("topology", ""), header["protocol"]
    same = Header(header["environment"]["id"], {}, protocol, playing.max_turns, topology, players)
    other = from_episode(again, same, item, seed=header["seed"])
    if difference := _first_difference(trace["events"], other["events"], note):
        return difference
    if terminated != recorded.terminated:
        return f"event {first['id']!r}, field header.terminated: recorded {recorded.terminated}, replayed {terminated}"
    for field in ("edges", "rewards", "metrics"):
        if trace.get(field) != other[field]:
            return f"field {field}: recorded {trace.get(field)!r:.200}, replayed {other[field]!r:.200}"
    return ""


def _play(env: TextDecPOMDP, recorded: Episode) -> tuple[list[Turn], bool, str]:
    """Play the recorded actions until other agents have to act than in the recording.

    Returns:
        The turns, whether the task terminated, and the reason if the replay stopped early or late, else "".
    """
    turns: list[Turn] = []
    terminated = False
    for number, turn in enumerate(recorded.turns):
        asked = agents_asked(env)
        if not env.agents or set(asked) != set(turn.actions):
            return turns, terminated, f"turn {number} asks {asked}, and the trace has actions of {list(turn.actions)}"
        actions = {agent: turn.actions[agent] for agent in asked}
        [stepped] = step_envs([env], [actions])
        turns.append(stepped.turn)
        terminated = stepped.terminated
    return turns, terminated, f"turn {len(turns)} asks {agents_asked(env)}, and the trace ends" if env.agents else ""


def _first_difference(there: Sequence[Mapping[str, Any]], here: Sequence[Mapping[str, Any]], note: str) -> str:
    for event, other in zip(there, here, strict=False):
        for field in dict.fromkeys((*event, *other)):
            if field not in _MEASURED and (difference := _compare(event.get(field), other.get(field), field)):
                return f"event {event['id']!r}, {difference}"
    if len(there) != len(here) or note:
        return f"event {there[min(len(there), len(here)) - 1]['id']!r}, field turn: {note or 'events follow it'}"
    return ""


def _compare(there: Any, here: Any, field: str) -> str:
    """Return the first difference of two plain values in words, else ""; floats are compared bit for bit."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name in dict.fromkeys((*there, *here)):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if name not in there or name not in here:
                states = ("missing", "present") if name not in there else ("present", "missing")
                return f"field {field}.{name}: recorded {states[0]}, replayed {states[1]}"
            if difference := _compare(there[name], here[name], f"{field}.{name}"):
                return difference
        return ""
    if isinstance(there, float) and isinstance(here, float):
        return "" if there.hex() == here.hex() else f"field {field}: recorded {there!r}, replayed {here!r}"
    return "" if there == here else f"field {field}: recorded {_short(there, here)}, replayed {_short(here, there)}"


def _short(value: Any, other: Any) -> str:
    """Return a value as shown in a message; of a long text, the part where it differs from `other`."""
    if not (isinstance(value, str) and isinstance(other, str)) or len(value) < 120:
        return repr(value)[:200]
    same = next((n for n, (a, b) in enumerate(zip(value, other, strict=False)) if a != b), min(len(value), len(other)))
    start = max(0, same - 20)
    return f"... {value[start : start + 100]!r} (from character {start})"
