"""The process that serves an environment. Needs the extra "serve"."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from typing import Any

try:
    import uvicorn
    import websockets  # noqa: F401  # pyright: ignore[reportUnusedImport]  # uvicorn uses it

    from .app import LOCAL, application
except ModuleNotFoundError as error:
    raise ImportError(
        f"serving needs {error.name}, which is not installed; install it: pip install -e '.[serve]' (in the clone)"
    ) from error

from ..envs import TextDecPOMDP
from .codec import MOST_BYTES
from .sessions import Limits, Sessions

_LOOK = 10  # seconds to complete the head of the first request, and to acknowledge sent bytes
_WAITING = 32  # requests at the same time, if the environment waits for another process
_SWITCH_INTERVAL = 5e-4  # seconds until a thread yields the interpreter; Python's 5e-3 would delay every answer


class Server:
    """A server of an environment. It listens from the start, and answers requests while `run` runs.

    Args:
        env: The environment that every session starts with.
        host: Address of this machine to listen at.
        port: Its port; 0: a free one.
        token: Required of every request; necessary if other machines can reach the host.
        limits: Limits of its sessions.

    Attributes:
        url: The address.

    Raises:
        ValueError: Other machines can reach the host and there is no token, or the token cannot be sent.
        OSError: The server cannot listen there, for example because another process does.
    """

    def __init__(
        self,
        env: TextDecPOMDP,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        token: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        if host not in LOCAL and token is None:
            raise ValueError(
                f"host is {host!r}, which other machines can reach; give --token (or LLM_DEC_POMDP_TOKEN) too"
            )
        if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
            raise ValueError(
                "the token is empty, or has a character that no header may contain, such as a space; give another token"
            )
        limits = limits or Limits()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = _Listener(socket.create_server((host, port), family=family, backlog=1024), limits.connections)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._listener.getsockname()[1]}"
        threads = _WAITING if env.facts.judges_code else os.cpu_count() or 1
        answering = application(Sessions(env, limits), token, threads)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            self._listener.silent.pop(scope.get("client"), None)
            await answering(scope, receive, send)

        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="websockets-sansio",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_LOOK,
            timeout_graceful_shutdown=5,
            timeout_notify=1,
            callback_notify=self._listener.end_silent,
            limit_concurrency=2 * limits.connections,
            ws_max_size=MOST_BYTES,
            ws_per_message_deflate=False,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Answer requests until `stop`, SIGINT or SIGTERM."""
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            with self._listener:
                self._server.run(sockets=[self._listener])
        finally:
            sys.setswitchinterval(interval)

    def stop(self) -> None:
        """Stop `run`, which runs in another thread."""
        self._server.should_exit = True


class _Listener(socket.socket):
    """A listening socket that closes connections without a first request.

    uvicorn would wait for the request without a limit.

    Args:
        listening: The socket, which it replaces.
        most: Largest number of connections without a request; beyond it the oldest one is closed.

    Attributes:
        silent: Connections without a request and their start times, by the address of the client.
    """

    def __init__(self, listening: socket.socket, most: int) -> None:
        super().__init__(fileno=listening.detach())
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _LOOK)
        self._most = most
        self.silent: dict[Any, tuple[socket.socket, float]] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; see `socket.socket.accept`."""
        connection, address = super().accept()
        self.silent[address[:2]] = connection, time.monotonic()
        if len(self.silent) > self._most:
            self._end(next(iter(self.silent)))
        return connection, address

    async def end_silent(self) -> None:
        """Close the connections that have been silent for too long."""
        for address, (_, begun) in list(self.silent.items()):
            if time.monotonic() - begun > _LOOK:
                self._end(address)

    def _end(self, address: Any) -> None:
        connection, _ = self.silent.pop(address)
        with contextlib.suppress(OSError):  # the client has closed it
            connection.shutdown(socket.SHUT_RDWR)
