"""The process of a server: addresses, tokens and connections."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs import make
from llm_dec_pomdp.serving import RemoteEnv, RemoteEnvError
from llm_dec_pomdp.serving.sessions import Limits

Serving = Callable[..., str]
PROGRAM = [sys.executable, "-c", "from llm_dec_pomdp.cli import main; main()", "serve"]


@pytest.fixture
def process() -> Iterator[Any]:
    """`process(*arguments)` returns a server that answers, and its address."""
    pytest.importorskip("starlette", reason="the extra serve is not installed")
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        begun = subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, text=True)
        running.append(begun)
        assert begun.stdout is not None
        return begun, begun.stdout.readline().strip()

    yield start
    for started in running:
        started.kill()
        started.wait()
        assert started.stdout is not None
        started.stdout.close()


@pytest.mark.slow
def test_a_server_that_was_killed_and_started_again_is_a_clear_error(process: Any) -> None:
    first, url = process("telegrams-v0", "--port", "0", "--turns", "2")
    assert url.startswith("http://127.0.0.1:")
    env = RemoteEnv(url, tries=2)
    assert (env.max_turns, env.metadata["name"]) == (2, "telegrams-v0")
    env.reset(seed=0)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    with pytest.raises(RemoteEnvError, match=url):
        env.step(dict.fromkeys(env.agents, "a text"))
    assert env.turn == 0
    second, _ = process("telegrams-v0", "--port", str(urlsplit(url).port))
    for again in (lambda: env.step(dict.fromkeys(env.agents, "a text")), env.reset):
        with pytest.raises(RemoteEnvError, match=r"state [0-9]+ "):
            again()
    RemoteEnv(url).reset(seed=0)
    second.terminate()
    assert second.wait(30) in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        (["--host", "0.0.0.0"], 2, "--token"),
        (["--sessions", "0"], 2, "sessions is 0"),
        (["--env", "colour=red"], 2, "'colour'"),
        (["--host", "203.0.113.1", "--token", "t"], 1, "203.0.113.1 port 8000"),
    ],
)
def test_wrong_use_is_a_sentence(options: list[str], code: int, named: str) -> None:
    pytest.importorskip("starlette", reason="the extra serve is not installed")
    done = CliRunner().invoke(app, ["serve", "telegrams-v0", *options], env={"LLM_DEC_POMDP_TOKEN": None})
    assert (done.exit_code, named in " ".join(done.stderr.split())) == (code, True), done.stderr


def test_a_missing_extra_is_a_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("server", "app", "web"):
        monkeypatch.delitem(sys.modules, f"llm_dec_pomdp.serving.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    done = CliRunner().invoke(app, ["serve", "telegrams-v0"])
    assert (done.exit_code, "pip install -e '.[serve]'" in " ".join(done.stderr.split())) == (2, True), done.stderr
    monkeypatch.setitem(sys.modules, "websockets", None)
    with pytest.raises(ImportError, match=r"websockets.*\[serve\]"):
        RemoteEnv("http://127.0.0.1:8000")


@pytest.mark.parametrize("token", ["", "a b", "ü", "a\n"])
def test_a_token_that_no_header_can_hold_is_refused(token: str, serving: Serving) -> None:
    with pytest.raises(ValueError, match="the token"):
        serving(make("telegrams-v0"), token=token)


def raw(url: str, text: bytes = b"") -> socket.socket:
    """Open a connection to a server and send a text."""
    address = urlsplit(url)
    assert address.port is not None
    connection = socket.create_connection(("127.0.0.1", address.port), timeout=30)
    connection.sendall(text)
    return connection


@pytest.mark.parametrize("text", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_a_connection_without_a_whole_request_ends(
    text: bytes, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serving(make("telegrams-v0"))
    monkeypatch.setattr("llm_dec_pomdp.serving.web._LOOK", 0.1)
    with raw(url, text) as connection, contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def test_connections_without_a_request_make_room_for_others(serving: Serving) -> None:
    url = serving(make("telegrams-v0"), limits=Limits(sessions=4))
    with contextlib.ExitStack() as opened:
        for _ in range(300):  # more than there may be
            opened.enter_context(raw(url))
        RemoteEnv(url, tries=1).reset(seed=0)


def test_the_thread_of_a_server_does_not_import_websockets() -> None:
    """Both a server and a client import it; in two threads at the same time these imports can deadlock."""
    pytest.importorskip("starlette", reason="the extra serve is not installed")
    code = """
import sys, threading
import llm_dec_pomdp
from llm_dec_pomdp.serving.server import Server

class Watch:
    def find_spec(self, name, *rest):
        if name.startswith("websockets.") and threading.current_thread() is not threading.main_thread():
            print(name)

server = Server(llm_dec_pomdp.make("keys-v0"), port=0)
sys.meta_path.insert(0, Watch())
thread = threading.Thread(target=server.run)
thread.start()
server.stop()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert not done.stdout
