"""A web server of a Starlette application, for environments and for agent programs. Needs the extra "serve"."""

from __future__ import annotations

import contextlib
import functools
import socket
import sys
import threading
import time
from typing import Any

try:
    import uvicorn
    import websockets  # noqa: F401  # pyright: ignore[reportUnusedImport]  # uvicorn uses it
    from starlette.applications import Starlette
except ModuleNotFoundError as error:
    raise ImportError(
        f"serving needs {error.name}, which is not installed; install it: pip install -e '.[serve]' (in the clone)"
    ) from error

from .codec import MOST_BYTES

_LOOK = 10  # seconds to complete the head of the first request, and to acknowledge sent bytes
_SWITCH_INTERVAL = 5e-4  # seconds until a thread yields the interpreter; Python's 5e-3 would delay every answer


class WebServer:
    """A server. It listens at once, and answers requests while `run` runs.

    Args:
        app: The application.
        host: Address of this machine to listen at.
        port: Its port; 0: a free one.
        connections: Maximum number of connections without a complete request; twice as many connections may be open.

    Attributes:
        url: The address.

    Raises:
        OSError: The server cannot listen there, for example because another process does.
    """

    def __init__(self, app: Starlette, host: str, port: int, connections: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = _Listener(socket.create_server((host, port), family=family, backlog=1024), connections)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._listener.getsockname()[1]}"

        async def answering(scope: Any, receive: Any, send: Any) -> None:
            self._listener.silent.pop(scope.get("client"), None)
            await app(scope, receive, send)

        config = uvicorn.Config(
            answering,
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
            limit_concurrency=2 * connections,
            ws_max_size=MOST_BYTES,
            ws_per_message_deflate=False,
        )
        config.load()  # imports in this thread: at the same time as a client in another one, they could deadlock
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

    def start(self) -> None:
        """Answer requests in a daemon thread of this process."""
        run = functools.partial(self._server.run, sockets=[self._listener])
        threading.Thread(target=run, name="server", daemon=True).start()

    def stop(self) -> None:
        """Stop `run`, which runs in another thread."""
        self._server.should_exit = True


class _Listener(socket.socket):
    """A listening socket that closes connections without a first request.

    uvicorn would wait for the request without a limit.

    Args:
        listening: The socket, which it replaces.
        most: Maximum number of connections without a request; if there are more, the oldest one is closed.

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
