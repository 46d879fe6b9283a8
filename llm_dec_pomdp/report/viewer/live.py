"""The episodes of a run in a browser, while it goes on: the viewer of traces behind a server of this machine alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ...results.runs import read_run
from .page import page_of
from .stored import browsable

HOST = "127.0.0.1"
_MOST = 64_000_000  # bytes of the episodes in a page


def state(run: Path) -> str:
    """What changes when there is more to see: a digest of names and sizes of the files with episodes."""
    files = sorted(run.glob("cells/*/episodes/step-*.jsonl"))
    return hashlib.sha256("\n".join(f"{file} {file.lstat().st_size}" for file in files).encode()).hexdigest()


def page(run: Path) -> str:
    """All episodes of a run that are kept, of every checkpoint and seed.

    Raises:
        RunError: It is no run.
    """
    entries = read_run(run).entries
    packed, left_out = browsable([(entry.environment, entry.method, entry) for entry in entries], _MOST)
    done = sum(entry.result is not None for entry in entries)
    about = f"{len(packed):,} episodes; {done} of {len(entries)} cells are done"
    if not len(packed):
        about += "; those before training and at the end are kept, and with --traces those of every evaluation"
    return page_of(packed, run.resolve().name, about + ("; more have no room" if left_out else ""), live=True)


def server(run: Path, port: int) -> ThreadingHTTPServer:
    """A server of the page, bound and not running yet.

    Args:
        run: Folder of the run.
        port: 0 takes a free one.

    Raises:
        OSError: The port is taken.
    """
    answers: dict[str, tuple[str, Callable[[Path], str]]] = {"/": ("text/html", page), "/state": ("text/plain", state)}

    class Handler(BaseHTTPRequestHandler):
        """Answers two paths, to whoever asked for this machine by its own name."""

        timeout = 10.0

        def do_GET(self) -> None:  # named by the library
            """The page, or the state of the run."""
            hosts = {f"{host}:{self.server.server_port}" for host in (HOST, "localhost")}  # type: ignore[attr-defined]
            if self.headers.get("Host") not in hosts or self.path not in answers:
                self.send_error(404)  # another name of this machine: a page of somebody else's asks
                return
            kind, answer = answers[self.path]
            try:
                body = answer(run).encode("utf-8", "backslashreplace")
            except (ValueError, OSError) as error:
                self.send_error(500, explain=str(error))
                return
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the terminal belongs to the command."""

    return ThreadingHTTPServer((HOST, port), Handler)
