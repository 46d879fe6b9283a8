"""A server of the OpenAI kind on loopback, for tests."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, bytes]


def reply(text: object, finish_reason: str = "stop") -> Reply:
    """What a server answers when it works."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}
    return 200, json.dumps({"id": "1", "object": "chat.completion", "choices": [choice]}).encode()


def reply_of(message: dict[str, Any], finish_reason: str | None = "stop", **fields: Any) -> Reply:
    """What a server answers with a message of any form; `fields` stand next to its choices."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
    return 200, json.dumps({"choices": [choice], **fields}).encode()


def reply_with_calls(*calls: tuple[str, dict[str, str]]) -> Reply:
    """What a server answers that calls tools in its own format."""
    entries = [
        {"id": f"x{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": entries}
    return 200, json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).encode()


def echo(body: dict[str, Any], number: int) -> Reply:
    """Says the last message and the seed."""
    return reply(f"{body['messages'][-1]['content']} {body['seed']}")


@dataclass
class Server:
    """What was asked, and how to answer: from the request's body and its number to status and bytes."""

    answer: Callable[[dict[str, Any], int], Reply] = echo
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    most_at_once: int = 0
    connections: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        with self._lock:
            number = len(self.asked)
            self.asked.append(body)
            self.paths.append(path)
            self.headers.append(headers)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            return self.answer(body, number)
        finally:
            with self._lock:
                self._now -= 1


def serving() -> Iterator[Server]:
    """A server for the time of a test."""
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open between requests
        wbufsize = -1  # an answer is one packet

        def setup(self) -> None:
            super().setup()
            with state._lock:
                state.connections += 1

        def _respond(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
            status, content = state.respond(self.path, dict(self.headers), body)
            with contextlib.suppress(OSError):  # the caller may have gone
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST = _respond  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()
