"""The endpoint of running programs: OpenAI's chat-completions API on this machine. Needs the extra "serve".

| request | answer |
|---|---|
| POST `/v1/chat/completions` | a completion of the role that `model` names |
| POST `/roles/ROLE/v1/chat/completions` | a completion of this role |
| GET `/v1/models`, `/roles/ROLE/v1/models` | the roles |
| POST `/v1/reward` | adds to the reward of the turn |

The API key of a request identifies its episode.
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol, cast

from ..serving.web import WebServer  # isort: split

from starlette.applications import Starlette  # after `web`, whose error names the missing package
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..printable import escape_controls
from .chat import RequestError, chunks
from .session import Session

_MOST_BYTES = 1 << 24  # of a request
CONNECTIONS = 512


class Backend(Protocol):
    """An object that answers the calls with one API key."""

    @property
    def role_names(self) -> tuple[str, ...]:
        """Return the names of the roles."""
        ...

    def submit(self, role: str, body: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Return the future of a response; see `Session.submit`."""
        ...


def application(find: Callable[[str], Backend | None]) -> Starlette:
    """Return the endpoint as a Starlette application.

    Args:
        find: Returns the backend of an API key; None if no episode has it.
    """

    def backend_of(request: Request) -> Backend:
        if "origin" in request.headers:
            raise RequestError("requests of web pages are not answered", code="forbidden", status=403)
        _, _, key = request.headers.get("authorization", "").partition(" ")
        if (backend := find(key)) is None:
            raise RequestError(
                "the API key belongs to no running episode; make clients inside the program, with its api_key",
                code="invalid_api_key",
                status=401,
            )
        return backend

    async def complete(request: Request) -> Response:
        backend = backend_of(request)
        body = await _json(request)
        role = request.path_params.get("role") or str(body.get("model"))
        answer = await asyncio.wrap_future(backend.submit(role, body))
        if body.get("stream"):
            return StreamingResponse(chunks(answer), media_type="text/event-stream")
        return JSONResponse(answer)

    async def models(request: Request) -> Response:
        names = backend_of(request).role_names
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "llm_dec_pomdp"} for name in names]
        return JSONResponse({"object": "list", "data": listed})

    async def reward(request: Request) -> Response:
        backend = backend_of(request)
        value = (await _json(request)).get("reward")
        if (
            not isinstance(backend, Session)
            or type(value) not in (int, float)
            or not math.isfinite(cast("float", value))
        ):
            raise RequestError(f"reward is {value!r:.40}; it is a finite number, for a running program", param="reward")
        backend.add_reward(cast("float", value))
        return JSONResponse({"object": "reward"})

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        body = error.body
        body["error"]["message"] = escape_controls(body["error"]["message"])
        return JSONResponse(body, error.status)

    routes: list[Route] = []
    for prefix in ("/v1", "/roles/{role}/v1"):
        routes.append(Route(f"{prefix}/chat/completions", complete, methods=["POST"]))
        routes.append(Route(f"{prefix}/models", models))
        routes.append(Route(f"{prefix}/reward", reward, methods=["POST"]))
    return Starlette(routes=routes, exception_handlers={RequestError: refused})


async def _json(request: Request) -> dict[str, Any]:
    """Return the body of a request.

    Raises:
        RequestError: It is no JSON object, or too long.
    """
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > _MOST_BYTES:
            raise RequestError(f"the request has more than {_MOST_BYTES >> 20} MiB", status=413)
    try:
        body: Any = json.loads(bytes(content))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the request is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise RequestError(f"the request is a {type(body).__name__}; send a JSON object")
    return cast("dict[str, Any]", body)


class LocalEndpoint:
    """The endpoint of the programs of this process."""

    def __init__(self) -> None:
        self._sessions: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        server = WebServer(application(self._sessions.get), "127.0.0.1", 0, CONNECTIONS)
        server.start()
        self._address = server.url

    def url(self, session: Session, role: str = "") -> str:
        """Return the base URL for a session; with a role, the URL of this role."""
        self._sessions[session.key] = session
        return f"{self._address}/roles/{role}/v1" if role else f"{self._address}/v1"


@functools.cache
def local_endpoint() -> LocalEndpoint:
    """Return the endpoint of this process, which listens on loopback from the first call on."""
    return LocalEndpoint()
