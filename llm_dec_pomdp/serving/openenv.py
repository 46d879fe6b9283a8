"""OpenEnv's protocol over a WebSocket, without that package: a connection is a session with one environment.

| the client sends | the server answers |
|---|---|
| `{"type": "reset", "data": {"seed": 0, "task_id": ..., "index": ...}}` | an observation |
| `{"type": "step", "data": {"texts": {agent: text}}}` | an observation |
| `{"type": "state"}` | `{"type": "state", "data": {"state": JSON text, "step_count": turns}}` |
| `{"type": "close"}` | nothing, and closes |

An observation is `{"type": "observation", "data": {"observation": ..., "reward": ..., "done": ...}}`. Anything else is
answered by `{"type": "error", "data": {"message": ..., "code": ...}}`, and the episode goes on where it was.
`/ws?session_id=NAME` plays the episode of a session that is open already, whose agents call their tools at `/mcp`.
"""

from __future__ import annotations

import math

from ..__about__ import __version__
from ..envs import TextDecPOMDP
from ..visible import visible
from .codec import Data, from_bytes, plain, to_bytes
from .operations import Played, began, field, stepped
from .sessions import RefusedError, Session, Sessions

_CODES = {400: "VALIDATION_ERROR", 410: "SESSION_ERROR", 503: "CAPACITY_REACHED"}
_TEXTS: Data = {"type": "object", "additionalProperties": {"type": "string"}}
_NUMBERS: Data = {"type": "object", "additionalProperties": {"type": ["number", "string"]}}
_OBSERVED: Data = {
    "texts": {**_TEXTS, "description": "What each agent that is there is told."},
    "roles": {**_TEXTS, "description": "What each of them is for."},
    "asked": {"type": "array", "items": {"type": "string"}, "description": "Who owes an answer."},
    "rewards": {**_NUMBERS, "description": "What the turn paid each of them."},
    "infos": {"type": "object", "additionalProperties": _NUMBERS, "description": "Parts of the reward, by agent."},
    "events": {"type": "array", "description": "What happened beside texts: kind, agent, details."},
}
SCHEMA: Data = {
    "action": {"title": "TeamAction", "type": "object", "properties": {"texts": _TEXTS}, "required": ["texts"]},
    "observation": {"title": "TeamObservation", "type": "object", "properties": _OBSERVED},
    "state": {"title": "TeamState", "type": "object", "properties": {"state": {"type": "string"}}},
}


def described(path: str, env: TextDecPOMDP) -> Data | None:
    """What OpenEnv reads about an environment at a path; None: nothing."""
    name, roles = env.metadata["name"], ", ".join(env.facts.roles)
    about = {"name": name, "description": f"A text Dec-POMDP for a team of {roles}.", "version": __version__}
    if path == "/openapi.json":
        paths: Data = {read: {"get": {}} for read in ("/health", "/metadata", "/schema")}
        return {"openapi": "3.1.0", "info": {"title": name, "version": __version__}, "paths": paths}
    return {"/metadata": about, "/schema": SCHEMA}.get(path)


class Conversation:
    """What is said over one connection.

    Args:
        sessions: What the server holds.
        shared: The name of a session that is open already and outlives the connection; "": one of its own.
    """

    def __init__(self, sessions: Sessions, shared: str = "") -> None:
        self._sessions = sessions
        self._shared = shared
        self._session: Session | None = None
        self.over = False

    def begin(self) -> bytes:
        """Open or find the session; returns an error to send where that cannot be, else nothing."""
        try:
            self._session = self._sessions.find(self._shared) if self._shared else self._sessions.open()
        except RefusedError as error:
            self.over = True
            return _error(_CODES[error.status], str(error))
        return b""

    def end(self) -> None:
        """The connection is gone."""
        self.over = True
        if self._session is not None and not self._shared:
            self._sessions.close(self._session.name)

    def answer(self, message: bytes | str) -> bytes:
        """The answer to a message; empty to the last one."""
        try:
            asked = from_bytes(message)
        except ValueError as error:
            return _error("INVALID_JSON", f"the message is no JSON object: {error}")
        if asked.get("type") == "close":
            self.over = True
            return b""
        try:
            return to_bytes(self._reply(asked))
        except RefusedError as error:
            self.over = error.status == 410
            return _error(_CODES.get(error.status, "EXECUTION_ERROR"), str(error))
        except (TypeError, ValueError) as error:
            return _error("EXECUTION_ERROR", f"the environment gave what JSON cannot hold: {error}")

    def _reply(self, asked: Data) -> Data:
        assert self._session is not None  # begun
        session = self._sessions.find(self._session.name)
        kind = field(asked, "type", str)
        if kind == "state":
            env = session.copy(session.place)
            return {"type": "state", "data": {"episode_id": None, "step_count": env.turn, "state": env.state()}}
        if kind not in ("reset", "step"):
            raise RefusedError(400, f"the type {kind!r:.60} is unknown; send reset, step, state or close")
        data: Data = field(asked, "data", dict, {})
        with session.playing:
            if kind == "reset":
                # None is what a client sends for what was not given.
                options = {name: value for name, value in data.items() if value is not None and name != "max_turns"}
                played = began(self._sessions, session, session.place, options)
            else:
                played = stepped(self._sessions, session, session.place, {"texts": data.get("texts")})
            session.forget([session.place])
            session.place = played.place
        return {"type": "observation", "data": _observation(played, paid=kind == "step")}


def _observation(played: Played, *, paid: bool) -> Data:
    """What a reset or a step gave, as OpenEnv has it; the reward is null where nothing was or could be scored."""
    env, reward = played.env, played.env.latest.transition.reward
    observation = {
        "texts": dict(played.observations),
        "roles": {agent: env.role(agent) for agent in played.observations},
        "asked": [agent for agent in env.agents if env.asked(agent)],
        "rewards": plain(played.rewards),
        "infos": plain(played.infos),
        "events": [[event.kind, event.agent, dict(event.details)] for event in env.latest.transition.events],
    }
    return {
        "observation": observation,
        "reward": reward if paid and math.isfinite(reward) else None,
        "done": not env.agents,
    }


def _error(code: str, message: str) -> bytes:
    return to_bytes({"type": "error", "data": {"message": visible(message), "code": code}})
