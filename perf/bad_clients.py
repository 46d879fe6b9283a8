"""Whether bad clients cost a server memory or its other clients: 10,000 of them, of five kinds, on this machine alone.

    python perf/bad_clients.py [--json] [--clients 10000]

Each batch of clients ends before the next begins: connections that ask nothing, bodies that are broken off, bodies that
do not end, requests that are no requests, and sessions that are left. After each batch an ordinary client plays an
episode. Memory is that of the server's process after a tenth of the clients, and at the end. Ratios are target /
measured, so larger is better and 1 is met.
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
    """One bad client; its connection is open until the batch ends, unless the server closes it."""
    with contextlib.suppress(OSError):
        connection = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        connection.sendall(list(KINDS.values())[number % len(KINDS)](number))


def measure(url: str, process: int, clients: int) -> dict[str, Any]:
    """All figures of one server."""
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
    """Start a server, measure, print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--json", action="store_true")
    options.add_argument("--clients", type=int, default=10_000)
    given = options.parse_args()
    command = [*SERVE, "--idle", "5"]  # so that sessions that were left end
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
