"""Measure the effect of 10,000 misbehaving clients on the memory of a server and on its other clients.

    python perf/bad_clients.py [--json] [--clients 10000] [--server env|team]

The server is `serve` (env) or `serve-team` (team) with a small model. There are five kinds of clients: connections
without a request, interrupted bodies, unfinished bodies, invalid requests, and abandoned sessions (env) or abandoned
completions (team). All clients run on this machine, in batches one after the other. After each batch an ordinary client
plays an episode, or asks for a completion. The memory of the server process is read after a tenth of the clients and at
the end. A ratio is target / measured: larger is better, and the target is met at 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from serving import ENV_ID, SERVE, memory_mb

from llm_dec_pomdp.serving import RemoteEnv

GROWTH_TARGET_MB = 32.0
MOST_TARGET_MB = 512.0
AT_ONCE = 100
BODY = 500_000  # bytes
OPEN = (
    b"GET /ws?session_id=left-session-%d HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
KEY = "key"
CALL = json.dumps({"model": "summary", "messages": [{"role": "user", "content": "Write."}]}).encode()
TEAM = [*SERVE[:-4], "serve-team", ENV_ID, "--model", "builtin:tiny", "--max-new-tokens", "8", "--port", "0"]


def post(path: str, size: int, body: bytes) -> bytes:
    """Return a request whose head announces `size` bytes."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {KEY}\r\nContent-Length: {size}\r\n\r\n"
    )
    return head.encode() + body


def kinds(path: str, left: Callable[[int], bytes]) -> list[Callable[[int], bytes]]:
    """Return the bytes that each kind of misbehaving client sends, by the number of the client."""
    return [
        lambda number: b"",
        lambda number: post(path, 2 * BODY, b"x" * BODY),
        lambda number: post(path, 2 * BODY, b"x" * (BODY // 4)),
        lambda number: bytes(range(256)) * (number % 50),
        left,
    ]


def play(url: str) -> None:
    """Play an episode at a server of environments."""
    env = RemoteEnv(url)
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, "A text."))
    env.close()


def complete(url: str) -> None:
    """Receive a completion of a served team."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/chat/completions", CALL, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        json.load(answer)["choices"][0]["message"]["content"]


SERVERS = {  # command, kinds of clients, and the ordinary client
    "env": ([*SERVE, "--idle", "5"], kinds("/mcp", lambda number: OPEN % (1_000 + number)), play),
    "team": (TEAM, kinds(PATH := "/v1/chat/completions", lambda number: post(PATH, len(CALL), CALL)), complete),
}


def measure(
    url: str, process: int, clients: int, kinds: list[Callable[[int], bytes]], ordinary: Callable[[str], None]
) -> dict[str, Any]:
    """Return all figures of one server."""
    port = urlsplit(url).port
    assert port is not None
    memory: list[float] = []
    failed: list[str] = []
    begun = time.monotonic()
    for first in range(0, clients, AT_ONCE):
        with contextlib.ExitStack() as opened:
            for number in range(first, first + AT_ONCE):  # the connections stay open until the batch ends
                with contextlib.suppress(OSError):
                    connection = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
                    connection.sendall(kinds[number % len(kinds)](number))
            try:
                ordinary(url)
            except OSError as error:
                failed.append(str(error))
            memory.append(memory_mb(process))
    if not memory[-1]:
        raise SystemExit(f"the server ended after {len(memory) - len(failed)} answers: {failed[0] if failed else ''}")
    early, late = memory[len(memory) // 10], memory[-1]
    return {
        "clients": clients,
        "seconds": time.monotonic() - begun,
        "answers": len(memory) - len(failed),
        "failed": failed[:3],
        "server_mb": [memory[0], early, late],
        "most_mb": max(memory),
        "growth_ratio": GROWTH_TARGET_MB / max(late - early, 0.01),
        "most_ratio": MOST_TARGET_MB / max(memory),
    }


def main() -> None:
    """Start a server, measure it, and print the figures."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--json", action="store_true")
    options.add_argument("--clients", type=int, default=10_000)
    options.add_argument("--server", choices=SERVERS, default="env")
    given = options.parse_args()
    command, *clients = SERVERS[given.server]
    environment = os.environ | {"OPENAI_API_KEY": KEY}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip().rpartition("=")[2]
        figures = measure(url, server.pid, given.clients, *clients)
    finally:
        server.terminate()
        server.wait()
    if given.json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures.items():
        print(f"{name:16} {value if isinstance(value, (int, list)) else round(value, 2)}")


if __name__ == "__main__":
    main()
