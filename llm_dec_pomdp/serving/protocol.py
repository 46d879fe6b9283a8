"""OpenEnv's protocol with two additional messages, fork and tasks.

| the client sends | the server answers |
|---|---|
| `{"type": "reset", "data": {"seed": 0, "task_id": ..., "index": ..., "max_turns": ...}}` | an observation |
| `{"type": "step", "data": {"texts": {agent: text}}}` | an observation |
| `{"type": "state"}` | `{"type": "state", "data": {"state": JSON text, "step_count": turns}}` |
| `{"type": "tasks", "data": {"first": 0}}` | `{"type": "tasks", "data": {"rows": [...], "number": 100}}` |
| `{"type": "fork", "data": {"tasks": ..., "single_agent": ..., "max_turns": ...}}` | a new state, see below |
| `{"type": "close"}` | nothing; the connection is closed |

An observation is `{"type": "observation", "data": {"observation": ..., "reward": ..., "done": ...}}`. An error is
`{"type": "error", "data": {"message": ..., "code": ...}}`; the episode does not change.

The session stores states by number; 0 is the environment before its first reset. If the data of a message has a number
as `fork`, the server plays a fork of the state with this number. The state and the session's current episode do not
change, so the same message can be sent twice. In place of `observation` its answer has `fork`: the `number` of the new
state, and the `outcome`, `hidden` and, after a reset, `item` that `RemoteEnv` needs.

The message `fork` makes a state with other tasks, for a single agent, or with other turns. The data of its answer is
`{"fork": number, "description": {...}}`. `forget` in the data of any message is a list of states to drop.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ..__about__ import __version__
from ..envs import TextDecPOMDP
from ..envs.tasks import item_as_json
from ..types import TaskItem
from .codec import Data, changeable, description, from_outcome, plain
from .sessions import RefusedError, Session, Sessions, attempt

_PAGE = 1 << 22  # approximate number of bytes of tasks in one answer
_TEXTS: Data = {"type": "object", "additionalProperties": {"type": "string"}}
_NUMBERS: Data = {"type": "object", "additionalProperties": {"type": ["number", "string"]}}
_OBSERVED: Data = {
    "texts": {**_TEXTS, "description": "The observation of each live agent."},
    "roles": {**_TEXTS, "description": "The role of each of them."},
    "asked": {"type": "array", "items": {"type": "string"}, "description": "Agents that have to act."},
    "rewards": {**_NUMBERS, "description": "The reward of each agent for the turn."},
    "infos": {"type": "object", "additionalProperties": _NUMBERS, "description": "Parts of the reward, by agent."},
    "events": {"type": "array", "description": "Events of the turn: kind, agent, details."},
}
SCHEMA: Data = {
    "action": {"title": "TeamAction", "type": "object", "properties": {"texts": _TEXTS}, "required": ["texts"]},
    "observation": {"title": "TeamObservation", "type": "object", "properties": _OBSERVED},
    "state": {"title": "TeamState", "type": "object", "properties": {"state": {"type": "string"}}},
}


def metadata(env: TextDecPOMDP) -> Data:
    """Return OpenEnv's metadata of an environment."""
    roles = ", ".join(env.facts.roles)
    about = f"A text Dec-POMDP for a team of {roles}."
    return {"name": env.metadata["name"], "description": about, "version": __version__}


def answer(sessions: Sessions, session: Session, message: Data) -> Data:
    """Return the answer to a message, other than `close`.

    Raises:
        RefusedError: The message is invalid, its session has ended, or the environment raises an exception.
    """
    kind, data = field(message, "type", str), field(message, "data", dict, {})
    if kind not in _ANSWERS:
        raise RefusedError("UNKNOWN_TYPE", f"the type {kind!r:.60} is unknown; send {', '.join(_ANSWERS)} or close")
    sessions.find(session.name)
    session.forget(number for number in field(data, "forget", list, []) if type(number) is int)
    type_of_answer = "observation" if kind in PLAYS else kind
    return {"type": type_of_answer, "data": _ANSWERS[kind](sessions, session, data)}


def field(data: Mapping[str, Any], name: str, kind: type, default: Any = ...) -> Any:
    """Return a field of a message; None counts as missing.

    Raises:
        RefusedError: The field has another type, or is missing and has no default.
    """
    value = data.get(name)
    if value is None and default is not ...:
        return default
    if type(value) is not kind:
        raise RefusedError("VALIDATION_ERROR", f"the field {name!r} is {value!r:.60}; it must be a {kind.__name__}")
    return value


def _texts(texts: Mapping[Any, Any], name: str) -> dict[str, str]:
    for key, text in texts.items():
        if not isinstance(text, str):
            raise RefusedError("VALIDATION_ERROR", f"the field {name!r} has {text!r:.60} for {key!r:.60}; send text")
    return dict(texts)


def reset(env: TextDecPOMDP, data: Mapping[str, Any]) -> Any:
    """Reset an environment by the `seed`, `task_id`, `index` and `max_turns` of a message; see `TextDecPOMDP.reset`."""
    _set_turns(env, data)
    options = {"task_id": field(data, "task_id", str, None), "index": field(data, "index", int, None)}
    options = {name: value for name, value in options.items() if value is not None}
    try:
        return env.reset(seed=field(data, "seed", int, None), options=options)
    except LookupError as error:
        if not options:
            raise
        raise RefusedError("NO_SUCH_TASK", str(error.args[0])) from error


def _set_turns(env: TextDecPOMDP, data: Mapping[str, Any]) -> None:
    env.max_turns = field(data, "max_turns", int, env.max_turns)


# --- answers by type --------------------------------------------------------------------------------------------------


def _reset(sessions: Sessions, session: Session, data: Data) -> Data:
    number, env, (observations, infos) = sessions.play(session, lambda env: reset(env, data), _number(data))
    return _observation(data, number, env, observations, None, infos)


def _step(sessions: Sessions, session: Session, data: Data) -> Data:
    texts = _texts(field(data, "texts", dict), "texts")

    def step(env: TextDecPOMDP) -> Any:
        _set_turns(env, data)
        return env.step(texts)

    number, env, (observations, rewards, _, _, infos) = sessions.play(session, step, _number(data))
    return _observation(data, number, env, observations, rewards, infos)


def _number(data: Data) -> int | None:
    return field(data, "fork", int, None)


def _observation(
    data: Data,
    number: int,
    env: TextDecPOMDP,
    observations: Mapping[str, str],
    rewards: Mapping[str, float] | None,
    infos: Mapping[str, Mapping[str, float]],
) -> Data:
    """Return the observation after a step or, without rewards, a reset; a reward that is NaN is null."""
    latest, reward = env.latest, env.latest.transition.reward
    observed: Data = {
        "reward": reward if rewards is not None and math.isfinite(reward) else None,
        "done": not env.agents,
    }
    if _number(data) is not None:
        fork = {"number": number, "outcome": from_outcome(latest), "hidden": json.loads(env.state())["hidden"]}
        return observed | {"fork": fork if rewards is not None else fork | {"item": item_as_json(env.item)}}
    events = [[event.kind, event.agent, dict(event.details)] for event in latest.transition.events]
    return observed | {
        "observation": {
            "texts": dict(observations),
            "roles": {agent: env.role(agent) for agent in observations},
            "asked": [agent for agent in env.agents if env.asked(agent)],
            "rewards": plain(rewards or {}),
            "infos": plain(infos),
            "events": events,
        }
    }


def _state(sessions: Sessions, session: Session, data: Data) -> Data:
    env = session.copy(field(data, "fork", int, session.current))
    return {"episode_id": None, "step_count": env.turn, "state": env.state()}


def _tasks(sessions: Sessions, session: Session, data: Data) -> Data:
    """Return tasks from number `first` on, about `_PAGE` bytes, and the number of all tasks."""
    items = session.copy(field(data, "fork", int, session.current)).items
    rows, size = list[Data](), 0
    for item in itertools.islice(items, max(0, field(data, "first", int, 0)), None):
        rows.append(item_as_json(item))
        size += len(item.prompt) + sum(map(len, (*item.reference, *item.fields.values())))
        if size > _PAGE:
            break
    return {"rows": rows, "number": len(items)}


def _fork(sessions: Sessions, session: Session, data: Data) -> Data:
    """Make a state with other `tasks`, for a `single_agent` (null if the environment has none), or with `max_turns`."""
    env: TextDecPOMDP | None = session.copy(field(data, "fork", int, session.current))
    rows: list[Any] | None = field(data, "tasks", list, None)
    if rows is not None:
        items, playing = [_item(env, row) for row in rows], env
        env = attempt(env, lambda: playing.with_items(items))
    if field(data, "single_agent", bool, False):
        env = attempt(env, env.single_agent)
    if env is None:
        return {"fork": None}
    attempt(env, lambda playing=env: _set_turns(playing, data))
    return {"fork": sessions.keep(session, env), "description": description(env)}


def _item(env: TextDecPOMDP, row: Any) -> TaskItem:
    """Return a task of the environment by its id, with the `reference` and the hidden `fields` that were sent.

    Other fields are not changed: they may be a path, or a program that the judge runs.
    """
    sent = cast("Data", row) if isinstance(row, dict) else {}
    name = field(sent, "id", str)
    item = next((item for item in env.items if item.id == name), None)
    if item is None:
        raise RefusedError("NO_SUCH_TASK", f"{name!r:.80} is no task of the server; give ids of its tasks")
    reference: list[Any] = field(sent, "reference", list, list(item.reference))
    fields = _texts(field(sent, "fields", dict, {}), "fields")
    if fixed := [name for name in fields if name not in changeable(env)]:
        raise RefusedError(
            "VALIDATION_ERROR",
            f"{fixed[0]!r:.60} of task {item.id!r} cannot be changed by a client; start a server with other tasks: "
            "serve ID --tasks FILE",
        )
    changed = _texts(dict(enumerate(reference)), "reference")
    return replace(item, reference=tuple(changed.values()), fields={**item.fields, **fields})


_ANSWERS: Mapping[str, Callable[[Sessions, Session, Data], Data]] = {
    "reset": _reset,
    "step": _step,
    "state": _state,
    "tasks": _tasks,
    "fork": _fork,
}
PLAYS: Sequence[str] = ("reset", "step")  # may be slow, because they run code of the environment
