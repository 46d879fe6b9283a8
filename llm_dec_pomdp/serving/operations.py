"""What a client may ask for, by name. A request holds numbers and texts; none of them names a module or a file.

Each operation takes the sessions and what was sent, and gives what to answer. It plays a copy of what is held and keeps
the copy under a new number, so that the same request twice has the same answer (but for that number).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from ..envs import TextDecPOMDP
from ..envs.tasks import item_as_json
from ..types import TaskItem
from .codec import Data, changeable, description, from_outcome
from .sessions import RefusedError, Session, Sessions

_PAGE = 1 << 22  # bytes of tasks in one answer, about
Operation = Callable[[Sessions, Data], Data]


def run(name: str, sessions: Sessions, body: Data) -> Data:
    """Do one operation.

    Raises:
        RefusedError: There is no such operation, it was asked for wrongly, or the environment raised.
    """
    if name not in OPERATIONS:
        raise RefusedError(404, f"there is nothing at {'/' + name!r:.60}; what may be asked: {', '.join(OPERATIONS)}")
    return OPERATIONS[name](sessions, body)


def field(body: Mapping[str, Any], name: str, kind: type, default: Any = ...) -> Any:
    """A field of what was sent; RefusedError where it is missing or of another type."""
    value = body.get(name, default)
    if value is ... or (value is not default and type(value) is not kind):
        problem = "is missing" if value is ... else f"is {value!r:.60}"
        raise RefusedError(400, f"the field {name!r} {problem}; it is of the type {kind.__name__}")
    return value


def texts_of(body: Mapping[str, Any], name: str) -> dict[str, str]:
    """A field that holds texts by name."""
    texts: dict[Any, Any] = field(body, name, dict)
    if wrong := [agent for agent, text in texts.items() if not isinstance(text, str)]:
        raise RefusedError(400, f"the field {name!r} has {texts[wrong[0]]!r:.60} for {wrong[0]!r:.60}; give text")
    return texts


def _texts(body: Mapping[str, Any], name: str) -> list[str]:
    texts: list[Any] = field(body, name, list)
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise RefusedError(400, f"the field {name!r} has {wrong[0]!r:.60}; give texts")
    return texts


def play(env: TextDecPOMDP, what: Callable[[], Any]) -> Any:
    """What the environment's own code gives; RefusedError where it raises."""
    try:
        return what()
    except RefusedError:
        raise
    except Exception as error:
        raise RefusedError(422, f"{env.metadata['name']} raised {type(error).__name__}: {error}") from error


class Played(NamedTuple):
    """A copy that was played, its number, and what everybody in it got; at a reset nobody is paid."""

    place: int
    env: TextDecPOMDP
    observations: Mapping[str, str]
    rewards: Mapping[str, float]
    infos: Mapping[str, Mapping[str, float]]


def began(sessions: Sessions, session: Session, place: int, body: Mapping[str, Any]) -> Played:
    """Reset a copy; `body` may have `seed`, `task_id`, `index` and `max_turns`."""
    env = _with_turns(session.copy(place), body)
    seed = field(body, "seed", int, None)
    chosen: dict[str, Any] = {}
    if "task_id" in body:
        chosen["task_id"] = field(body, "task_id", str)
    if "index" in body:
        chosen["index"] = field(body, "index", int)

    def reset() -> Any:
        try:
            return env.reset(seed=seed, options=chosen)
        except LookupError as error:
            if not chosen:
                raise
            raise RefusedError(404, str(error.args[0])) from error

    observations, infos = play(env, reset)
    return Played(sessions.keep(session, env), env, observations, {}, infos)


def stepped(sessions: Sessions, session: Session, place: int, body: Mapping[str, Any]) -> Played:
    """Step a copy with the `texts` of `body`; it may have `max_turns`."""
    env = _with_turns(session.copy(place), body)
    texts = texts_of(body, "texts")
    observations, rewards, _, _, infos = play(env, lambda: env.step(texts))
    return Played(sessions.keep(session, env), env, observations, rewards, infos)


def _with_turns(env: TextDecPOMDP, body: Mapping[str, Any]) -> TextDecPOMDP:
    turns = field(body, "max_turns", int, None)
    if turns is not None:
        play(env, lambda: setattr(env, "max_turns", turns))
    return env


def _called(sessions: Sessions, body: Data) -> tuple[Session, TextDecPOMDP]:
    """The session of a request and a copy of the environment that it names."""
    session = _session(sessions, body)
    return session, session.copy(field(body, "place", int))


def _session(sessions: Sessions, body: Data) -> Session:
    session = sessions.find(field(body, "session", str))
    session.forget(place for place in field(body, "forget", list, []) if type(place) is int)
    return session


# --- operations -------------------------------------------------------------------------------------------------------


def _open(sessions: Sessions, body: Data) -> Data:
    """A session, in which 0 is the environment that is served."""
    session = sessions.open()
    return {"session": session.name, "description": description(session.copy(0))}


def _adopt(sessions: Sessions, body: Data) -> Data:
    """A copy out of another session, whose name the client knows."""
    env = sessions.find(field(body, "of", str)).copy(field(body, "place", int))
    return {"place": sessions.keep(_session(sessions, body), env)}


def _close(sessions: Sessions, body: Data) -> Data:
    sessions.close(field(body, "session", str))
    return {}


def _reset(sessions: Sessions, body: Data) -> Data:
    played = began(sessions, _session(sessions, body), field(body, "place", int), body)
    return {"item": item_as_json(played.env.item), **_latest(played)}


def _step(sessions: Sessions, body: Data) -> Data:
    return _latest(stepped(sessions, _session(sessions, body), field(body, "place", int), body))


def _latest(played: Played) -> Data:
    env = played.env
    return {"place": played.place, "outcome": from_outcome(env.latest), "hidden": json.loads(env.state())["hidden"]}


def _facts(sessions: Sessions, body: Data) -> Data:
    """What an environment says of itself, for a number of turns."""
    _, env = _called(sessions, body)
    return {"facts": description(_with_turns(env, body))["facts"]}


def _tasks(sessions: Sessions, body: Data) -> Data:
    """The tasks from number `first` on, about `_PAGE` bytes of them, and how many there are in all."""
    _, env = _called(sessions, body)
    items, first = env.items, field(body, "first", int)
    rows, size = list[Data](), 0
    for item in itertools.islice(items, max(0, first), None):
        rows.append(item_as_json(item))
        size += len(item.prompt) + sum(map(len, (*item.reference, *item.fields.values())))
        if size > _PAGE:
            break
    return {"rows": rows, "number": len(items)}


def _with_tasks(sessions: Sessions, body: Data) -> Data:
    """A copy that plays some of the tasks; what is for the reward alone may be changed in them."""
    session, env = _called(sessions, body)
    known = {item.id: item for item in env.items}
    items = [_amended(known, row, changeable(env)) for row in field(body, "rows", list)]
    twin: TextDecPOMDP = play(env, lambda: env.with_items(items))
    return {"place": sessions.keep(session, twin)}


def _amended(known: Mapping[str, TaskItem], row: Any, hidden: Sequence[str]) -> TaskItem:
    """A task of the server, with the references and hidden fields that were sent.

    Nothing else may be changed: another field may be a file's path or what a judge runs.
    """
    sent = cast("Data", row) if isinstance(row, dict) else {}
    name = field(sent, "id", str)
    if name not in known:
        raise RefusedError(422, f"{name!r:.80} is no task of the server; give tasks that it has, by their id")
    item, fields = known[name], texts_of(sent, "fields")
    amended = replace(item, reference=tuple(_texts(sent, "reference")), fields={**item.fields, **fields})
    changed = [name for name in (*item.fields, *fields) if amended.fields[name] != item.fields.get(name)]
    wrong = [*(name for name in ("prompt", "split") if sent.get(name) != getattr(item, name))]
    wrong += [name for name in changed if name not in hidden]
    if wrong:
        raise RefusedError(
            422,
            f"{wrong[0]!r} of task {item.id!r} is another than the server's; over the wire only references and what is "
            f"for the reward alone and not run ({', '.join(hidden) or 'no field'}) may be changed; start a server with "
            "such tasks (serve ID --tasks FILE)",
        )
    return amended


def _alone(sessions: Sessions, body: Data) -> Data:
    """The same task for one agent, where there is one."""
    session, env = _called(sessions, body)
    alone: TextDecPOMDP | None = play(env, env.single_agent)
    return (
        {"place": None}
        if alone is None
        else {"place": sessions.keep(session, alone), "description": description(alone)}
    )


OPERATIONS: Mapping[str, Operation] = {
    "open": _open,
    "adopt": _adopt,
    "close": _close,
    "reset": _reset,
    "step": _step,
    "facts": _facts,
    "tasks": _tasks,
    "with_tasks": _with_tasks,
    "alone": _alone,
}
PLAYS = ("reset", "step", "with_tasks", "alone")  # operations that run code of the environment, which may take long
