"""The server as a Starlette application.

| request | answer |
|---|---|
| GET `/health` | the number of sessions; needs no token |
| GET `/metadata`, `/schema`, `/openapi.json` | OpenEnv's description of the environment |
| WebSocket `/ws` | OpenEnv's protocol, see `protocol`; a connection is a session |
| WebSocket `/ws?session_id=NAME` | the session of this name, which outlives its connections |
| POST, DELETE `/mcp` | the tools of an agent for clients of MCP, see `mcp` |
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
from urllib.parse import urlsplit

import anyio
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..__about__ import __version__
from ..printable import escape_controls
from .codec import Data, from_text, to_text
from .protocol import PLAYS, SCHEMA, answer, metadata
from .sessions import RefusedError, Session, Sessions

LOCAL = ("127.0.0.1", "localhost", "::1")


def application(sessions: Sessions, token: str | None, threads: int) -> Starlette:
    """Return the application.

    Args:
        sessions: The sessions of the server.
        token: Token that every request except GET /health needs; None: only requests to this machine are answered.
        threads: Number of requests that play at the same time. Other requests have their own threads, so that slow
            calls of one client do not block other clients.
    """
    playing = anyio.CapacityLimiter(threads)
    env, limits = sessions.env, sessions.limits

    async def health(request: Request) -> JSONResponse:
        name, full = env.metadata["name"], {"sessions": len(sessions), "most_sessions": limits.sessions}
        return JSONResponse({"status": "healthy", "environment": name, **full})

    async def play(websocket: WebSocket) -> None:
        try:
            session = sessions.join(websocket.query_params.get("session_id", ""))
        except RefusedError as error:
            status = 503 if error.code == "CAPACITY_REACHED" else 400
            await websocket.send_denial_response(PlainTextResponse(escape_controls(str(error)), status))
            return
        try:
            await websocket.accept()
            with contextlib.suppress(WebSocketDisconnect):
                await _converse(websocket, sessions, session, playing)
        finally:
            sessions.leave(session)

    pages: dict[str, Data] = {
        "/metadata": metadata(env),
        "/schema": SCHEMA,
        "/openapi.json": {
            "openapi": "3.1.0",
            "info": {"title": env.metadata["name"], "version": __version__},
            "paths": {path: {"get": {}} for path in ("/health", "/metadata", "/schema")},
        },
    }
    routes: list[BaseRoute] = [Route("/health", health), WebSocketRoute("/ws", play)]
    routes += [Route(path, JSONResponse(page)) for path, page in pages.items()]
    try:
        from .mcp import Tools
    except ImportError:  # the extra is optional
        lifespan = None
        routes.append(Route("/mcp", PlainTextResponse("the server needs the extra mcp: pip install -e '.[mcp]'", 501)))
    else:
        tools = Tools(sessions, playing)
        lifespan = tools.lifespan
        routes.append(Route("/mcp", tools))
    return Starlette(routes=routes, middleware=[Middleware(_Guard, token)], lifespan=lifespan)


async def _converse(websocket: WebSocket, sessions: Sessions, session: Session, playing: anyio.CapacityLimiter) -> None:
    """Answer the messages of a connection until it ends, its session ends, or it is idle."""
    while True:
        try:
            received = await asyncio.wait_for(websocket.receive(), sessions.limits.idle)
        except TimeoutError:
            await websocket.close(1001, "idle")
            return
        if received["type"] == "websocket.disconnect":
            return
        try:
            message = from_text(received.get("text") or received.get("bytes") or "")
        except ValueError as error:
            await websocket.send_text(_error("INVALID_JSON", f"the message is no JSON object: {error}"))
            continue
        if message.get("type") == "close":
            await websocket.close()
            return
        limiter = playing if message.get("type") in PLAYS else None
        text, over = await anyio.to_thread.run_sync(_answer, sessions, session, message, limiter=limiter)
        await websocket.send_text(text)
        if over:
            await websocket.close(1000)
            return


def _answer(sessions: Sessions, session: Session, message: Data) -> tuple[str, bool]:
    """Return the text of the answer to a message, and whether the session is over."""
    try:
        return to_text(answer(sessions, session, message)), False
    except RefusedError as error:
        return _error(error.code, str(error)), error.code == "SESSION_ERROR"
    except (TypeError, ValueError) as error:
        return _error("EXECUTION_ERROR", f"JSON cannot hold the answer of the environment: {error}"), False


def _error(code: str, message: str) -> str:
    return to_text({"type": "error", "data": {"message": escape_controls(message), "code": code}})


class _Guard:
    """Middleware that refuses requests of web pages and requests without the token.

    Without a token it refuses requests for another host name, which protects against DNS rebinding.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answering = self._app
        if scope["type"] != "lifespan" and scope["path"] != "/health":
            answering = self._refusal(Headers(scope=scope)) or self._app
        await answering(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if "origin" in headers:
            status, reason = 403, "requests of web pages are refused; send the request from a program"
        elif self._token is None:
            status, reason = 403, f"the host {host!r:.60} is not this machine; start the server with --token"
            if _hostname(host) in LOCAL:
                return None
        else:
            status, reason = 401, "the token is missing or wrong; give token, or set LLM_DEC_POMDP_TOKEN"
            if hmac.compare_digest(_token_of(headers).encode(), self._token.encode()):
                return None
        return PlainTextResponse(escape_controls(reason), status, headers={"connection": "close"})


def _hostname(host: str) -> str | None:
    """Return a host without its port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _token_of(headers: Headers) -> str:
    """Return the token of a request: a bearer token, or the password of an address (OpenEnv's client)."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return value if kind.lower() == "bearer" else ""
