"""The viewer of traces for a run that may still be running, behind a server that only this machine can reach."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ...results.runs import read_run
from .page import page_of
from .stored import browsable

HOST = "127.0.0.1"
_MOST = 64_000_000  # maximum size of the episodes in a page, in bytes


def state(run: Path) -> str:
    """Return a digest of names and sizes of the files with episodes, which changes when there are new episodes."""
    files = sorted(run.glob("cells/*/episodes/step-*.jsonl"))
    return hashlib.sha256("\n".join(f"{file} {file.lstat().st_size}" for file in files).encode()).hexdigest()


def page(run: Path) -> str:
    """Return the page with the stored episodes of a run, of every checkpoint and seed.

    Raises:
        RunError: The folder is not the folder of a run.
    """
    entries = read_run(run).entries
    packed, left_out = browsable([(entry.environment, entry.method, entry) for entry in entries], _MOST)
    done = sum(entry.result is not None for entry in entries)
    about = f"{len(packed):,} episodes; {done} of {len(entries)} runs are done"
    if not len(packed):
        about += "; the first and the last evaluation store episodes, and with --traces every evaluation"
    return page_of(
        packed, run.resolve().name, about + ("; the page has no room for more" if left_out else ""), live=True
    )


def server(run: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the page, which is bound to its port and not started yet.

    Args:
        run: Folder of the run.
        port: Port; 0 chooses a free one.

    Raises:
        OSError: The port is taken.
    """
    answers: dict[str, tuple[str, Callable[[Path], str]]] = {"/": ("text/html", page), "/state": ("text/plain", state)}

    class Handler(BaseHTTPRequestHandler):
        """A handler of two paths, for requests that name this machine as 127.0.0.1 or localhost."""

        timeout = 10.0

        def do_GET(self) -> None:  # named by the library
            """Send the page, or the state of the run."""
            hosts = {f"{host}:{self.server.server_port}" for host in (HOST, "localhost")}  # type: ignore[attr-defined]
            if self.headers.get("Host") not in hosts or self.path not in answers:
                self.send_error(404)  # another host name: the request may come from a foreign web page
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
            """Write nothing to the terminal."""

    return ThreadingHTTPServer((HOST, port), Handler)
