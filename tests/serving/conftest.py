"""What tests of serving share: a server in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.serving.server import Server


@pytest.fixture
def serving() -> Iterator[Callable[..., str]]:
    """`serving(env, limits=..., token=...)` -> the address; all servers end with the test."""
    pytest.importorskip("uvicorn", reason="the extra serve is not installed")
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
