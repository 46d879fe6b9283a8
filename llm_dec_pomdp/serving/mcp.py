"""MCP over HTTP, without that package: the tools of one agent, for programs that call tools themselves.

    /mcp?agent=summary&task_id=...     the address of one agent's tools, in an episode that `initialize` begins

| address has | which is |
|---|---|
| `agent` | an agent, or its role; the first that has tools when left out |
| `seed`, `task_id`, `index` | as a reset takes them |
| `session_id` | a session that is open already, so that several agents, and a program at `/ws`, share an episode |

| method | result |
|---|---|
| `initialize` | a session, named by the header `mcp-session-id`; `instructions` is what the agent is told |
| `tools/list` | the tools, with JSON schemas; needs no session |
| `tools/call` | what the tool answers; what is wrong with the arguments is an answer with `isError` |
| `ping` | `{}` |
| `openenv/session/create`, `.../close` | a session by `params.session_id` in place of the header (RFC 003) |

DELETE ends a session that `initialize` began. With `WithTools` a call is beside the rounds; in another environment it
is the agent's text of a turn, where nobody else is asked. A message is a JSON-RPC request; a notification has no
answer, and batches are no part of these revisions of the protocol. Every error is one of JSON-RPC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl

from ..__about__ import __version__
from ..envs import TextDecPOMDP
from ..envs.tools import written
from ..envs.wrappers.tools import WithTools
from ..registries import nearest
from ..visible import visible, whole
from .codec import Data, Reply, from_bytes, to_bytes
from .operations import began, play
from .sessions import RefusedError, Session, Sessions

MOST_BYTES = 1 << 20  # of a message
VERSIONS = ("2025-11-25", "2025-06-18")  # of the protocol, the newest first
_BEGINS = {"seed": int, "index": int, "task_id": str}  # what an address may say of the episode
_INVALID_JSON, _INVALID, _UNKNOWN_METHOD, _WRONG_PARAMS = -32700, -32600, -32601, -32602
_REFUSED, _OTHER_VERSION = -32000, -32022


class _RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Asked(NamedTuple):
    """A request, with what its address and headers say."""

    sessions: Sessions
    params: Data
    address: Mapping[str, str]
    session: str  # its name; "" where none is given


def answer(sessions: Sessions, query: bytes, headers: Mapping[str, str], body: bytes) -> Reply:
    """The reply to a message.

    Args:
        sessions: What the server holds.
        query: Of the address, behind its "?".
        headers: By name in small letters.
        body: The message.
    """
    number = None
    try:
        if len(body) > MOST_BYTES:
            raise RefusedError(413, f"the message is longer than {MOST_BYTES} bytes; send less at once")
        message = _read(body)
        if "method" not in message or "id" not in message:  # an answer of the client or a notification
            return Reply(202)
        number, version = message["id"], headers.get("mcp-protocol-version", VERSIONS[0])
        if version not in VERSIONS:
            about = {"supported": list(VERSIONS), "requested": version}
            return Reply(400, _error(number, _OTHER_VERSION, "this version of the protocol is not spoken here", about))
        method, params = message["method"], cast("Data", message.get("params", {}))
        if method not in _METHODS:
            raise _RpcError(_UNKNOWN_METHOD, f"there is no method {method!r:.60}; there are {', '.join(_METHODS)}")
        if not isinstance(params, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _RpcError(_WRONG_PARAMS, f"params is {params!r:.60}; give an object")
        address = _address(query)
        named = params.get("session_id") or headers.get("mcp-session-id") or address.get("session_id", "")
        result = _METHODS[method](_Asked(sessions, params, address, str(named)))
        session = result.pop("session", "")
        return Reply(200, to_bytes({"jsonrpc": "2.0", "id": number, "result": result}), session)
    except _RpcError as error:
        return Reply(200, _error(number, error.code, str(error)))
    except RefusedError as error:
        return refused(error, number)


def refused(error: RefusedError, number: Any = None) -> Reply:
    """The reply to a message that is not answered, with the status that it has elsewhere.

    That of a session that is gone is 404, after which clients begin another.
    """
    status = 404 if error.status == 410 else error.status
    return Reply(status, _error(number, _INVALID if status == 400 else _REFUSED, str(error)))


def end(sessions: Sessions, query: bytes, headers: Mapping[str, str]) -> Reply:
    """The reply to a client that goes: its session ends, unless others share it by its address."""
    if "session_id" not in _address(query):
        sessions.close(sessions.find(headers.get("mcp-session-id", "")).name)
    return Reply(200)


def _error(number: Any, code: int, message: str, data: Data | None = None) -> bytes:
    error: Data = {"code": code, "message": visible(message), **({"data": data} if data else {})}
    return to_bytes({"jsonrpc": "2.0", "id": number, "error": error})


def _read(body: bytes) -> Data:
    """The message; raises _RpcError where it is none."""
    try:
        message = from_bytes(body)
    except ValueError as error:
        code = _INVALID if body.lstrip()[:1] == b"[" else _INVALID_JSON
        raise _RpcError(code, f"the message is no JSON object: {error}; send one request at a time") from None
    if message.get("jsonrpc") != "2.0":
        raise _RpcError(_INVALID, f"jsonrpc is {message.get('jsonrpc')!r:.60}; it is '2.0'")
    if "method" not in message and not message.keys() & {"result", "error"}:
        raise _RpcError(_INVALID, "the message has no method")
    if not isinstance(message.get("method", ""), str):
        raise _RpcError(_INVALID, f"the method is {message['method']!r:.60}; it is a text")
    if type(message.get("id", "")) not in (str, int):
        raise _RpcError(_INVALID, f"the id is {message['id']!r:.60}; it is a text or a whole number")
    return message


def _address(query: bytes) -> dict[str, str]:
    """What an address says; RefusedError where it says something else."""
    parameters = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    known = ("agent", "session_id", *_BEGINS)
    if unknown := sorted(set(parameters) - set(known)):
        raise RefusedError(400, f"the address has {unknown[0]!r:.60}; {nearest(unknown[0][:60], known)}")
    return parameters


def _agent(env: TextDecPOMDP, address: Mapping[str, str]) -> str:
    """The agent that an address names, or the first that has tools."""
    agents = env.possible_agents
    if "agent" not in address:
        return next((agent for agent in agents if env.tools(agent)), agents[0])
    name = address["agent"]
    found = [agent for agent in agents if name in (agent, env.role(agent))]
    if not found:
        raise RefusedError(400, f"no agent {name!r:.60}; {nearest(name[:60], [*agents, *env.facts.roles])}")
    return found[0]


# --- methods ----------------------------------------------------------------------------------------------------------


def _initialize(asked: _Asked) -> Data:
    """A session, and an episode that begins in it, unless the address names one."""
    agent, shared = _agent(asked.sessions.env, asked.address), asked.address.get("session_id")
    session = asked.sessions.find(shared) if shared else _begun(asked)
    wanted = asked.params.get("protocolVersion")
    history = session.copy(session.place).history(agent) if session.place else ()
    return {
        "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": asked.sessions.env.metadata["name"], "version": __version__},
        "instructions": visible("\n\n".join(message.text for message in history if message.role == "observation")),
        "session": session.name,
    }


def _begun(asked: _Asked) -> Session:
    body: Data = {}
    for name, kind in _BEGINS.items():
        if name in asked.address:
            try:
                body[name] = kind(asked.address[name])
            except ValueError:
                raise RefusedError(400, f"{name} is {asked.address[name]!r:.60}; it is a whole number") from None
    session = asked.sessions.open()
    try:
        session.place = began(asked.sessions, session, 0, body).place
    except RefusedError:
        asked.sessions.close(session.name)
        raise
    return session


def _create(asked: _Asked) -> Data:
    return {"session_id": _begun(asked).name}


def _close(asked: _Asked) -> Data:
    asked.sessions.close(asked.sessions.find(asked.session).name)
    return {"session_id": asked.session, "closed": True}


def _list(asked: _Asked) -> Data:
    env = asked.sessions.env
    tools = env.tools(_agent(env, asked.address))
    return {"tools": [{"name": t.name, "description": t.description, "inputSchema": t.json_schema} for t in tools]}


def _call(asked: _Asked) -> Data:
    """Play a call, and hold what follows in place of what was."""
    name, arguments = asked.params.get("name"), cast("Data", asked.params.get("arguments") or {})
    agent = _agent(asked.sessions.env, asked.address)
    known = [tool.name for tool in asked.sessions.env.tools(agent)]
    if name not in known:
        raise _RpcError(_WRONG_PARAMS, f"{agent} has no tool {name!r:.60}; {nearest(str(name)[:60], known)}")
    if not isinstance(arguments, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _RpcError(_WRONG_PARAMS, f"the arguments of {name} are {arguments!r:.60}; give an object")
    if not asked.session:
        raise RefusedError(400, "no session is named; send initialize first, and its mcp-session-id after that")
    session = asked.sessions.find(asked.session)
    with session.playing:
        env = session.copy(session.place)
        text, valid = play(env, lambda: _played(env, agent, written(name, arguments)))
        before, session.place = session.place, asked.sessions.keep(session, env)
        session.forget([before])
    return {"content": [{"type": "text", "text": whole(text)}], "isError": not valid}


def _played(env: TextDecPOMDP, agent: str, text: str) -> tuple[str, bool]:
    """What a call gave, and whether it is an answer of the tool."""
    if not env.asked(agent):
        others = ", ".join(other for other in env.agents if env.asked(other))
        why = f"{others} has to write" if others else "the episode is over, or has not begun"
        return f"{agent} cannot call now; {why}", False
    if isinstance(env, WithTools):
        [answered] = env.call(agent, text)
        return answered.answer, answered.valid
    if others := [other for other in env.agents if env.asked(other) and other != agent]:
        return f"{others[0]} has to write in the same turn; play it at /ws", False
    observations, *_ = env.step({**dict.fromkeys(env.agents, ""), agent: text})
    failed = any(event.details.get("valid") == "false" for event in env.latest.transition.events)
    return observations.get(agent, ""), not failed


_METHODS: Mapping[str, Callable[[_Asked], Data]] = {
    "initialize": _initialize,
    "ping": lambda asked: {},
    "tools/list": _list,
    "tools/call": _call,
    "openenv/session/create": _create,
    "openenv/session/close": _close,
}
