"""The tools of one agent over MCP, for MCP clients. Needs the extra "mcp".

    /mcp?agent=summary&task_id=...     the tools of one agent; `initialize` starts an episode

| parameter of the address | meaning |
|---|---|
| `agent` | an agent or its role; default: the first agent with tools |
| `seed`, `task_id`, `index` | arguments of the reset |
| `session_id` | the session of this name, in which several agents and a program at `/ws` can play one episode |

The server of the `mcp` package implements the protocol and stores nothing: `mcp-session-id` names one of `Sessions`,
with the limits of all sessions. OpenEnv's client of tools starts a session by `openenv/session/create`, and names it in
`params.session_id` (RFC 003).

With `WithTools` calls are additional to the actions of a turn. In another environment a call is the agent's action of a
turn. It is refused if another agent has to act in the same turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import anyio
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParams,
    TextContent,
    Tool,
)
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from ..__about__ import __version__
from ..envs import TextDecPOMDP
from ..envs.tools import written
from ..envs.wrappers.tools import WithTools
from ..printable import escape_controls, replace_surrogates
from ..registries import nearest
from .protocol import reset
from .sessions import RefusedError, Session, Sessions

BODY_SECONDS = 30.0  # to receive the body of a request
MOST_BYTES = 1 << 20  # bytes of a request
_REFUSED = -32000  # JSON-RPC's first code for errors of a server
_NUMBERS = ("seed", "index")
_PARAMETERS = ("agent", "session_id", "task_id", *_NUMBERS)
T = TypeVar("T")
_Context = Any  # ServerRequestContext, whose type does not name the class of the request
logging.getLogger("mcp").addHandler(logging.NullHandler())  # errors are sent as answers and not printed


class Tools:
    """An ASGI application that serves the tools of an environment.

    Args:
        sessions: The sessions of the server.
        playing: Limiter of the requests that play at the same time.
    """

    def __init__(self, sessions: Sessions, playing: anyio.CapacityLimiter) -> None:
        self._sessions, self._playing = sessions, playing
        name = sessions.env.metadata["name"]
        server = Server[Any](name, version=__version__, on_list_tools=self._list, on_call_tool=self._call)
        server.middleware.append(self._answer)
        server.add_request_handler("server/discover", RequestParams, _no_discovery)
        server.add_request_handler("openenv/session/create", RequestParams, self._create)
        server.add_request_handler("openenv/session/close", RequestParams, self._close)
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=MOST_BYTES
        )

    def lifespan(self, app: object) -> AbstractAsyncContextManager[None]:
        """Return the context in which requests are answered."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request, deadline, whole = Request(scope), asyncio.get_running_loop().time() + BODY_SECONDS, False
        read: list[Message] = []  # a body that is passed on to the MCP server

        async def receive_in_time() -> Message:
            nonlocal whole
            if read:
                return read.pop()
            async with asyncio.timeout_at(None if whole else deadline):
                message = await receive()
            whole = not message.get("more_body", False)
            return message

        async def send_with_session(message: Message) -> None:
            if message["type"] == "http.response.start" and (name := scope["state"].get("started", "")):
                MutableHeaders(scope=message)["mcp-session-id"] = name
            await send(message)

        try:
            response = self._without_body(request)
            if response is None and request.headers.get("content-length") == "2":
                read.append(await receive_in_time())
                if read[0].get("body") == b"{}":  # OpenEnv's validation checks with this body whether MCP is served
                    response = _error(200, "the message has no method")
            if response is None:
                await self._manager.handle_request(scope, receive_in_time, send_with_session)
        except RefusedError as error:
            response = _error(404 if error.code == "SESSION_ERROR" else 400, str(error))
        except TimeoutError:
            if whole:
                raise
            response = _error(408, f"the request did not come within {BODY_SECONDS:.0f} s")
        if response is not None:
            await response(scope, receive, send)

    def _without_body(self, request: Request) -> Response | None:
        """Return the response to a request that is not an MCP message, such as DELETE; None for a message."""
        query = request.query_params
        if unknown := sorted(set(query) - set(_PARAMETERS)):
            raise _invalid(f"the address has {unknown[0]!r:.60}; {nearest(unknown[0][:60], _PARAMETERS)}")
        if name := request.headers.get("mcp-session-id"):
            self._sessions.find(name)  # if the session is gone, 404 makes the client start another one
            if request.method == "DELETE" and "session_id" not in query:
                self._sessions.close(name)
        if request.method == "DELETE":
            return Response()
        return None if request.method == "POST" else _error(405, "there are no streams; POST to /mcp")

    # --- handlers of the MCP server ------------------------------------------------------------------------------

    async def _answer(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Answer any message; `initialize` starts a session and an episode, which `instructions` describe."""
        try:
            result = await call_next(ctx)
            if ctx.method == "initialize" and isinstance(result, dict):
                session, shown = await self._in_thread(self._started, ctx.request.query_params)
                ctx.request.state.started = session.name
                result["instructions"] = shown
            return result
        except RefusedError as error:
            raise MCPError(_REFUSED, escape_controls(str(error))) from error

    async def _create(self, ctx: _Context, params: RequestParams) -> HandlerResult:
        session, _ = await self._in_thread(self._started, ctx.request.query_params)
        return {"session_id": session.name}

    async def _close(self, ctx: _Context, params: RequestParams) -> HandlerResult:
        session = self._session(ctx)
        self._sessions.close(session.name)
        return {"session_id": session.name, "closed": True}

    async def _list(self, ctx: _Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        env = self._sessions.env
        tools = env.tools(_agent(env, ctx.request.query_params))
        listed = [Tool(name=t.name, description=t.description, input_schema=t.json_schema) for t in tools]
        return ListToolsResult(tools=listed)

    async def _call(self, ctx: _Context, params: CallToolRequestParams) -> CallToolResult:
        """Play a call in the session's current state."""
        env, session = self._sessions.env, self._session(ctx)
        agent = _agent(env, ctx.request.query_params)
        known = [tool.name for tool in env.tools(agent)]
        if params.name not in known:
            message = f"{agent} has no tool {params.name!r:.60}; {nearest(params.name[:60], known)}"
            raise MCPError(INVALID_PARAMS, escape_controls(message))
        call = written(params.name, params.arguments or {})

        def play(env: TextDecPOMDP) -> tuple[str, bool]:
            return _called(env, agent, call)

        _, _, (text, valid) = await self._in_thread(self._sessions.play, session, play)
        return CallToolResult(content=[TextContent(type="text", text=replace_surrogates(text))], is_error=not valid)

    async def _in_thread(self, run: Callable[..., T], *arguments: Any) -> T:
        return await anyio.to_thread.run_sync(run, *arguments, limiter=self._playing)

    def _started(self, query: Mapping[str, str]) -> tuple[Session, str]:
        """Return the session of an address, with an episode, and the agent's observations."""
        agent, data = _agent(self._sessions.env, query), dict[str, Any](query)
        for name in _NUMBERS:
            try:
                data[name] = int(query[name]) if name in query else None
            except ValueError:
                raise _invalid(f"{name} is {query[name]!r:.60}; it must be an integer") from None
        session = self._sessions.join(query.get("session_id", ""))
        try:
            with session.playing:
                if not session.current:
                    session.current = self._sessions.play(session, lambda env: reset(env, data), 0)[0]
        except RefusedError:
            self._sessions.leave(session)
            raise
        if session.lasting:  # other connections keep it open; otherwise it is open until DELETE
            self._sessions.leave(session)
        history = session.copy(session.current).history(agent)
        return session, escape_controls(
            "\n\n".join(message.text for message in history if message.role == "observation")
        )

    def _session(self, ctx: _Context) -> Session:
        parameters: dict[str, Any] = ctx.params or {}
        headers, query = ctx.request.headers, ctx.request.query_params
        name = parameters.get("session_id") or headers.get("mcp-session-id") or query.get("session_id")
        if not name:
            raise RefusedError("SESSION_ERROR", "no session is named; send initialize first, or give a session_id")
        return self._sessions.find(str(name))


async def _no_discovery(ctx: _Context, params: RequestParams) -> HandlerResult:
    """Refuse revisions of MCP without sessions, so that a client continues with `initialize`."""
    raise MCPError(METHOD_NOT_FOUND, "send initialize: the session is an episode")


def _invalid(reason: str) -> RefusedError:
    return RefusedError("VALIDATION_ERROR", reason)


def _error(status: int, message: str) -> Response:
    error = {"code": _REFUSED, "message": escape_controls(message)}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status)


def _agent(env: TextDecPOMDP, query: Mapping[str, str]) -> str:
    """Return the agent that an address names, or the first agent with tools."""
    agents = env.possible_agents
    if "agent" not in query:
        return next((agent for agent in agents if env.tools(agent)), agents[0])
    name = query["agent"]
    found = [agent for agent in agents if name in (agent, env.role(agent))]
    if not found:
        raise _invalid(f"no agent {name!r:.60}; {nearest(name[:60], [*agents, *env.facts.roles])}")
    return found[0]


def _called(env: TextDecPOMDP, agent: str, text: str) -> tuple[str, bool]:
    """Play a call and return its result, and whether the call was valid."""
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
