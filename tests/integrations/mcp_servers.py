"""MCP servers that do what none should, for tests: HTTP in this process, or a program."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL = {"name": "price", "description": "Say a price.", "inputSchema": {"type": "object", "properties": {"ware": {}}}}
BEGUN = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}


class Odd:
    """What a server answers, and what it received.

    Args:
        tools: The tools of each page of its list.
        result: Of a call.
        pages: The list never ends.
        raw: Status, headers and chunks of the answer to a call, or to a method of that name, in place of a result.
    """

    def __init__(
        self,
        tools: Any = (TOOL,),
        result: Any = None,
        *,
        pages: bool = False,
        raw: dict[str, tuple[int, dict[str, str], Iterator[bytes]]] | None = None,
    ) -> None:
        self.tools, self.pages, self.raw = list(tools), pages, raw or {}
        self.result = result or {"content": [{"type": "text", "text": "3 coins"}], "isError": False}
        self.paths: list[tuple[str, str, str]] = []  # method, path and authorization of each request
        self.asked = 0  # for a page of the list
        self.sent = 0  # bytes of raw answers

    def answer(self, method: str) -> Any:
        if method == "initialize":
            return BEGUN
        if method == "tools/list":
            self.asked += 1
            return {"tools": self.tools, **({"nextCursor": str(self.asked)} if self.pages else {})}
        return self.result if method == "tools/call" else None


@contextlib.contextmanager
def served(odd: Odd) -> Iterator[str]:
    """The address of a server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *about: Any) -> None: ...

        def do_GET(self) -> None:
            odd.paths.append(("GET", self.path, ""))
            self._send(405, {}, b"")

        def do_POST(self) -> None:
            odd.paths.append(("POST", self.path, self.headers.get("authorization", "")))
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            method, number = message["method"], message.get("id")
            if number is None:
                self._send(202, {}, b"")
            elif method in odd.raw:
                self._stream(*odd.raw[method])
            else:
                found = odd.answer(method)
                error = {"error": {"code": -32601, "message": "no such method"}}
                body = {"jsonrpc": "2.0", "id": number, **({"result": found} if found is not None else error)}
                self._send(200, {"content-type": "application/json"}, json.dumps(body).encode())

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            with contextlib.suppress(OSError):  # the client is gone
                self.end_headers()
                self.wfile.write(body)

        def _stream(self, status: int, headers: dict[str, str], parts: Iterator[bytes]) -> None:
            self.close_connection = True
            self.send_response(status)
            for name, value in {"connection": "close", "content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                for part in parts:
                    self.wfile.write(part)
                    odd.sent += len(part)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        server.server_close()


FLOOD = (
    f"BEGUN, TOOL = {BEGUN!r}, {TOOL!r}"
    + """
import json, os, sys

for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "tools/call":
        while True:
            os.write(1, b"x" * 65536)
    known = {"initialize": BEGUN, "tools/list": {"tools": [TOOL]}}
    error = {"error": {"code": -32601, "message": "no such method"}}
    result = {"result": known[message["method"]]} if message["method"] in known else error
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **result}), flush=True)
"""
)  # a program that answers a call with a line that never ends
