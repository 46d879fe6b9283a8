"""The process that serves an environment, until it is stopped. Needs the extra "serve"."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import sys
import time
from typing import Any

from ..envs import TextDecPOMDP
from .app import LOCAL, App
from .sessions import Limits, Sessions

_LOOK = 10.0  # seconds in which a client has to complete its first request, and to read some of an answer
_MOST_WORDS = 1 << 20  # bytes of a message over a WebSocket
_WAITING = 32  # requests at the same time, where an environment waits for another process
_SWITCH_INTERVAL = 5e-4  # seconds for which a thread that plays keeps the interpreter; Python's 5e-3 delay every answer


class Server:
    """An environment at an address, which is taken at once; requests are answered while `run` runs.

    Args:
        env: What every session begins with.
        host: Address of this machine to listen at.
        port: 0: one that is free.
        token: What every request has to bring; needed where other machines can send requests.
        limits: What is granted.

    Attributes:
        url: The address.

    Raises:
        ImportError: The extra is not installed.
        ValueError: Other machines can reach the host and there is no token, or the token cannot be sent.
        OSError: Nothing can listen there, e.g. since another process does.
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
        uvicorn = _library()
        if host not in LOCAL and token is None:
            raise ValueError(
                f"host is {host!r}, which other machines can reach; give --token (or LLM_DEC_POMDP_TOKEN) too"
            )
        if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
            raise ValueError("the token is empty, or has a space or a character that no header can hold; take another")
        limits = limits or Limits()
        most = 2 * limits.sessions + 64
        threads = _WAITING if env.facts.judges_code else os.cpu_count() or 1
        config = uvicorn.Config(
            App(Sessions(env, limits), token, threads),
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(_LOOK),
            timeout_graceful_shutdown=5,
            ws_max_size=_MOST_WORDS,
            ws_per_message_deflate=False,
            http=_watched("http.h11_impl", "H11Protocol", most),
            ws=_watched("websockets.websockets_sansio_impl", "WebSocketsSansIOProtocol", most),
        )
        self._server = uvicorn.Server(config)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=1024)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._listener.getsockname()[1]}"

    def run(self) -> None:
        """Answer until `stop`, SIGINT or SIGTERM."""
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            with self._listener:
                self._server.run(sockets=[self._listener])
        finally:
            sys.setswitchinterval(interval)

    def stop(self) -> None:
        """Let `run`, in another thread, come to its end."""
        self._server.should_exit = True


def _library() -> Any:
    try:
        importlib.import_module("websockets")  # which uvicorn uses
        return importlib.import_module("uvicorn")
    except ImportError:
        raise ImportError(
            "serving needs uvicorn and websockets; install them: pip install -e '.[serve]' (in the clone)"
        ) from None


def _watched(module: str, name: str, most: int) -> Any:
    """A protocol of uvicorn that closes a connection with no complete request, or whose client reads no answer.

    uvicorn itself waits for ever for the end of the first header, and for a client that does not read. Where there are
    more than `most` connections, the oldest that has not asked anything whole, or was answered, makes room; the new one
    has to go where all others wait for an answer.
    """
    base: Any = getattr(importlib.import_module(f"uvicorn.protocols.{module}"), name)

    class Watched(base):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._unsent, self._began = 0, time.monotonic()
            if len(self.connections) > most:
                quiet = [other for other in self.connections if isinstance(other, Watched) and other._quiet()]
                oldest = min(quiet, key=lambda other: other._began)
                oldest.transport.abort()
                self.connections.discard(oldest)  # at once: many may come before the loop learns that it is gone
            self._looking = asyncio.get_running_loop().call_later(_LOOK, self._look)

        def _quiet(self) -> bool:
            """No whole request is being answered."""
            cycle: Any = self.cycle
            return (cycle is None or cycle.response_complete or cycle.more_body) and not self.transport.is_closing()

        def _look(self) -> None:
            if self not in self.connections:  # it is gone, or a WebSocket now
                return
            unsent: int = self.transport.get_write_buffer_size()
            silent = getattr(self, "cycle", self) is None  # of HTTP: no request has come
            if silent or (unsent and unsent == self._unsent):
                self.transport.abort()
                return
            self._unsent = unsent
            self._looking = asyncio.get_running_loop().call_later(_LOOK, self._look)

        def connection_lost(self, exc: Exception | None) -> None:
            self._looking.cancel()
            super().connection_lost(exc)

    return Watched
