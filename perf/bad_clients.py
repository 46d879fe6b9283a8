"""Measure the effect of 10,000 misbehaving clients on the memory of a server and on its other clients.

    python perf/bad_clients.py [--json] [--clients 10000]

There are five kinds of clients: connections without a request, interrupted bodies, unfinished bodies, invalid requests,
and abandoned sessions. All clients run on this machine, in batches one after the other. After each batch an ordinary
client plays an episode. The memory of the server process is read after a tenth of the clients and at the end. A ratio
is target / measured: larger is better, and the target is met at 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from serving import SERVE, memory_mb

from llm_dec_pomdp.serving import RemoteEnv

GROWTH_TARGET_MB = 32.0
MOST_TARGET_MB = 512.0
AT_ONCE = 100
BODY = 500_000  # bytes
HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
OPEN = (
    b"GET /ws?session_id=left-session-%d HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
KINDS: dict[str, Callable[[int], bytes]] = {
    "idle": lambda number: b"",
    "broken off": lambda number: HEAD % (2 * BODY) + b"x" * BODY,
    "unfinished": lambda number: HEAD % (2 * BODY) + b"x" * (BODY // 4),
    "garbage": lambda number: bytes(range(256)) * (number % 50),
    "left sessions": lambda number: OPEN % (1_000 + number),
}


def attack(port: int, number: int, opened: contextlib.ExitStack) -> None:
    """Connect as one misbehaving client; the connection stays open until the batch ends or the server closes it."""
    with contextlib.suppress(OSError):
        connection = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        connection.sendall(list(KINDS.values())[number % len(KINDS)](number))


def measure(url: str, process: int, clients: int) -> dict[str, Any]:
    """Return all figures of one server."""
    port = urlsplit(url).port
    assert port is not None
    memory: list[float] = []
    failed: list[str] = []
    begun = time.monotonic()
    for first in range(0, clients, AT_ONCE):
        with contextlib.ExitStack() as opened:
            for number in range(first, first + AT_ONCE):
                attack(port, number, opened)
            try:
                env = RemoteEnv(url)
                env.reset(seed=0)
                env.step(dict.fromkeys(env.agents, "A text."))
                env.close()
            except OSError as error:
                failed.append(str(error))
            memory.append(memory_mb(process))
    if not memory[-1]:
        raise SystemExit(f"the server ended after {len(memory) - len(failed)} episodes: {failed[0] if failed else ''}")
    early, late = memory[len(memory) // 10], memory[-1]
    return {
        "clients": clients,
        "seconds": time.monotonic() - begun,
        "episodes": len(memory) - len(failed),
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
    given = options.parse_args()
    command = [*SERVE, "--idle", "5"]  # abandoned sessions end after 5 s
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        figures = measure(server.stdout.readline().strip(), server.pid, given.clients)
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
