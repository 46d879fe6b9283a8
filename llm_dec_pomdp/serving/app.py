"""The server as an ASGI application: one request in, one answer out, whatever is sent.

    GET  /health                     answered without a token
    GET  /metadata, /schema, ...     what OpenEnv reads about an environment
    POST /open, /reset, /step, ...   `operations`, for `RemoteEnv`: a JSON object in, one out
    WebSocket /ws                    OpenEnv's protocol: a connection is a session, see `openenv`
    POST, DELETE /mcp                the tools of an agent for clients of MCP, see `mcp`

A refusal is a status and a sentence; at /mcp, an error of JSON-RPC.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..visible import visible
from . import mcp
from .codec import MOST_BYTES, Data, Reply, from_bytes, to_bytes
from .openenv import Conversation, described
from .operations import PLAYS, run
from .sessions import RefusedError, Sessions

BODY_SECONDS = 30.0  # for the body of a request, and between two messages of a WebSocket
MOST_TRAFFIC = 1 << 26  # bytes of long requests and answers at the same time
FREE_BYTES = 1 << 16  # of each request
_QUICK_THREADS = 2
LOCAL = ("127.0.0.1", "localhost", "::1")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Traffic:
    """What requests and answers take that are on their way, all connections together.

    Attributes:
        bytes: So many, beside what requests are free to take.
    """

    def __init__(self) -> None:
        self.bytes = 0


class _Share:
    """What one request takes of the traffic, until it is answered."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic, self._bytes, self._counted = traffic, 0, 0

    def add(self, count: int) -> None:
        """Take so many bytes more; RefusedError where all together take too many.

        The first `FREE_BYTES` are not counted, so that ordinary requests are answered while others send too much.
        """
        self._bytes += count
        grown = max(0, self._bytes - FREE_BYTES) - self._counted
        if grown > 0 and self._traffic.bytes + grown > MOST_TRAFFIC:
            raise RefusedError(503, f"requests of more than {MOST_TRAFFIC} bytes are on their way; try again later")
        self._traffic.bytes += grown
        self._counted += grown

    def __enter__(self) -> _Share:
        return self

    def __exit__(self, *exc: object) -> None:
        self._traffic.bytes -= self._counted


class App:
    """The application.

    Args:
        sessions: What is held.
        token: What every request has to bring; None: nothing, and then only requests to this machine are answered.
        threads: How many requests play at the same time. Those that play nothing, such as `open`, have threads of
            their own, so that slow calls of one client do not keep others from the server.
    """

    def __init__(self, sessions: Sessions, token: str | None, threads: int) -> None:
        self._sessions = sessions
        self._token = token
        self._threads = ThreadPoolExecutor(threads, "play")
        self._quick_threads = ThreadPoolExecutor(_QUICK_THREADS, "quick")
        self.traffic = Traffic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection's request."""
        if scope["type"] == "http":
            with _Share(self.traffic) as share:
                at_mcp = scope["path"] == "/mcp"
                status, body, session = await (self._speak if at_mcp else self._answer)(scope, receive, share)
                kind = b"application/json" if status == 200 or at_mcp else b"text/plain; charset=utf-8"
                headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
                if session:
                    headers.append((b"mcp-session-id", session.encode()))
                if status >= 400:
                    headers.append((b"connection", b"close"))  # what was not read of the request is not waited for
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": body})
        elif scope["type"] == "websocket":
            await self._converse(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, share: _Share) -> Reply:
        try:
            path, method = scope["path"], scope["method"]
            if (method, path) == ("GET", "/health"):
                return Reply(200, to_bytes(self._health()))
            self._admit(scope)
            if method == "GET" and (about := described(path, self._sessions.env)):
                return Reply(200, to_bytes(about))
            if method != "POST":
                raise RefusedError(405, f"{method[:20]} {path[:60]} is not answered; POST to it, or GET /health")
            body = await asyncio.wait_for(_whole(scope, receive, share), BODY_SECONDS)
            answer = await self._in_thread(_operation, path[1:], self._sessions, body, quick=path[1:] not in PLAYS)
            share.add(len(answer))
            return Reply(200, answer)
        except RefusedError as error:
            return Reply(error.status, visible(str(error)).encode())
        except TimeoutError:
            return Reply(408, f"the request did not come within {BODY_SECONDS:.0f} s".encode())

    async def _speak(self, scope: Scope, receive: Receive, share: _Share) -> Reply:
        """The reply to a message of MCP."""
        query, headers = scope.get("query_string", b""), _headers(scope)
        try:
            self._admit(scope)
            if scope["method"] == "DELETE":
                return mcp.end(self._sessions, query, headers)
            if scope["method"] != "POST":
                raise RefusedError(405, f"{scope['method'][:20]} is not answered: there are no streams; POST to /mcp")
            body = await asyncio.wait_for(_whole(scope, receive, share), BODY_SECONDS)
            reply = await self._in_thread(mcp.answer, self._sessions, query, headers, body)
            share.add(len(reply.body))
            return reply
        except RefusedError as error:
            return mcp.refused(error)
        except TimeoutError:
            return mcp.refused(RefusedError(408, f"the request did not come within {BODY_SECONDS:.0f} s"))

    def _health(self) -> Data:
        limit = self._sessions.limits.sessions
        name = self._sessions.env.metadata["name"]
        return {"status": "healthy", "environment": name, "sessions": len(self._sessions), "most_sessions": limit}

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any, quick: bool = False) -> Any:
        threads = self._quick_threads if quick else self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, work, *arguments)

    # --- who may ask ---------------------------------------------------------------------------------------------

    def _admit(self, scope: Scope) -> None:
        """Refuse web pages and requests without the token; where there is none, those for another host's name."""
        headers = _headers(scope)
        if "origin" in headers:
            raise RefusedError(403, "requests of web pages are not answered; ask from a program")
        if self._token is None:
            host = headers.get("host", "")
            if _name(host) not in LOCAL:
                raise RefusedError(403, f"the host {host!r:.60} is not this machine; start the server with --token")
        elif not hmac.compare_digest(_brought(headers).encode(), self._token.encode()):
            raise RefusedError(401, "the token is missing or wrong; give token, or set LLM_DEC_POMDP_TOKEN")

    # --- OpenEnv -------------------------------------------------------------------------------------------------

    async def _converse(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        try:
            self._admit(scope)
            if scope["path"] != "/ws":
                raise RefusedError(404, "the WebSocket is at /ws")
        except RefusedError as error:
            start = "websocket.http.response.start"
            await send({"type": start, "status": error.status, "headers": list[tuple[bytes, bytes]]()})
            await send({"type": "websocket.http.response.body", "body": visible(str(error)).encode()})
            return
        await send({"type": "websocket.accept"})
        shared = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])[0]
        conversation = Conversation(self._sessions, shared)
        try:
            if refused := await self._in_thread(conversation.begin, quick=True):
                await send({"type": "websocket.send", "text": refused.decode()})
            while not conversation.over:
                message = await asyncio.wait_for(receive(), min(BODY_SECONDS, self._sessions.limits.idle))
                if message["type"] == "websocket.disconnect":
                    return
                received = message.get("text") or message.get("bytes") or b""
                answer = await self._in_thread(conversation.answer, received)
                if answer:
                    await send({"type": "websocket.send", "text": answer.decode()})
            await send({"type": "websocket.close", "code": 1000})
        except TimeoutError:
            await send({"type": "websocket.close", "code": 1001, "reason": "idle"})
        finally:
            conversation.end()


def _operation(name: str, sessions: Sessions, body: bytes) -> bytes:
    try:
        asked = from_bytes(body)
    except ValueError as error:
        raise RefusedError(400, f"the request is no JSON object: {error}") from None
    answer = run(name, sessions, asked)
    try:
        return to_bytes(answer)
    except (TypeError, ValueError) as error:
        raise RefusedError(422, f"the environment gave what JSON cannot hold: {error}") from None


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def _whole(scope: Scope, receive: Receive, share: _Share) -> bytes:
    """The body of a request; RefusedError where it or all are too long, or its client is gone."""
    body, more = bytearray(), True
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    try:
        while True:
            if max(len(body), int(announced)) > MOST_BYTES:
                raise RefusedError(413, f"the request is longer than {MOST_BYTES} bytes; send less at once")
            if not more:
                return bytes(body)
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RefusedError(400, "the client is gone")
            share.add(len(message.get("body", b"")))
            body += message.get("body", b"")
            more = message.get("more_body", False)
    finally:
        message = None
        body.clear()  # an error refers to this frame, and asyncio to the error, until garbage is collected


def _name(host: str) -> str | None:
    """A host without its port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _brought(headers: Mapping[str, str]) -> str:
    """The token of a request: as a bearer, or as the password of an address, which is how OpenEnv's client can."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return value if kind.lower() == "bearer" else ""
