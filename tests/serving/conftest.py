"""A server in a thread and a plain client of its WebSocket, for tests of serving."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from llm_dec_pomdp.envs import TextDecPOMDP


@pytest.fixture
def serving() -> Iterator[Callable[..., str]]:
    """`serving(env, limits=..., token=...)` returns the address; all servers end with the test."""
    pytest.importorskip("starlette", reason="the extra serve is not installed")
    from llm_dec_pomdp.serving.server import Server

    running: list[tuple[Server, threading.Thread]] = []

    def start(env: TextDecPOMDP, **options: Any) -> str:
        server = Server(env, port=0, **options)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        running.append((server, thread))
        return server.url

    yield start
    for server, thread in running:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def connect() -> Iterator[Callable[..., Any]]:
    """`connect(url, session_id)` returns a connection to `/ws`; all connections end with the test."""
    client = pytest.importorskip("websockets.sync.client", reason="the extra serve is not installed")
    with ExitStack() as opened:

        def start(url: str, session_id: str = "", **options: Any) -> Any:
            address = f"{url.replace('http', 'ws', 1)}/ws?session_id={session_id}"
            return opened.enter_context(client.connect(address, proxy=None, max_size=None, **options))

        yield start
