"""The process: what others can reach, and what ends a connection."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs import make
from llm_dec_pomdp.serving import RemoteEnv, RemoteEnvError, server
from llm_dec_pomdp.serving.sessions import Limits

Serving = Callable[..., str]
PROGRAM = [sys.executable, "-c", "from llm_dec_pomdp.cli import main; main()", "serve"]


@pytest.fixture
def process() -> Iterator[Any]:
    """`process(*arguments)` -> a server that answers, and its address."""
    pytest.importorskip("uvicorn", reason="the extra serve is not installed")
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
    with pytest.raises(RemoteEnvError, match=f"{url} gave no usable answer in 2 tries: .*is the server running"):
        env.step(dict.fromkeys(env.agents, "a text"))
    assert env.turn == 0
    second, _ = process("telegrams-v0", "--port", str(urlsplit(url).port))
    for again in (lambda: env.step(dict.fromkeys(env.agents, "a text")), env.reset):
        with pytest.raises(RemoteEnvError, match=r"does not know this session .* started anew"):
            again()
    RemoteEnv(url).reset(seed=0)
    second.terminate()
    assert second.wait(30) in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--host", "0.0.0.0"], 2, "which other machines can reach; give --token"),
        (["--sessions", "0"], 2, "sessions is 0; it must be more than 0"),
        (["--env", "colour=red"], 2, "takes no argument 'colour'"),
        (["--host", "203.0.113.1", "--token", "t"], 1, "nothing can listen at 203.0.113.1 port 8000"),
    ],
)
def test_wrong_use_is_a_sentence(options: list[str], code: int, message: str) -> None:
    pytest.importorskip("uvicorn", reason="the extra serve is not installed")
    done = CliRunner().invoke(app, ["serve", "telegrams-v0", *options], env={"LLM_DEC_POMDP_TOKEN": None})
    assert (done.exit_code, message in " ".join(done.stderr.split())) == (code, True), done.stderr


def test_a_missing_extra_is_a_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match=r"pip install -e '.\[serve\]'"):
        server.Server(make("telegrams-v0"))


@pytest.mark.parametrize("token", ["", "a b", "ü", "a\n"])
def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    pytest.importorskip("uvicorn", reason="the extra serve is not installed")
    with pytest.raises(ValueError, match="the token is empty, or has a space"):
        server.Server(make("telegrams-v0"), port=0, token=token)


def raw(url: str, text: bytes = b"") -> socket.socket:
    """A connection to a server, over which something was sent."""
    address = urlsplit(url)
    assert address.port is not None
    connection = socket.create_connection(("127.0.0.1", address.port), timeout=30)
    connection.sendall(text)
    return connection


@pytest.mark.parametrize("text", [b"", b"POST /open HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_who_asks_nothing_whole_is_cut_off(text: bytes, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_LOOK", 0.1)
    with raw(serving(make("telegrams-v0")), text) as connection, contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""


@pytest.mark.slow
def test_who_takes_no_answer_is_cut_off(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_LOOK", 0.2)
    env = make("telegrams-v0")
    url = serving(env)
    body = json.dumps({"session": _session(url), "place": 0, "text": "x" * 8_000_000}).encode()
    head = f"POST /shown HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with raw(url, head + body) as connection:
        time.sleep(1.0)
        received = 0
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(1 << 20):
                received += len(part)
    assert received < 8_000_000


def _session(url: str) -> str:
    with urllib.request.urlopen(urllib.request.Request(f"{url}/open", b"{}")) as answer:
        return json.load(answer)["session"]


@pytest.mark.parametrize("text", [b"", b"POST /open HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"])
def test_idle_connections_and_unfinished_requests_make_room_for_others(text: bytes, serving: Serving) -> None:
    url = serving(make("telegrams-v0"), limits=Limits(sessions=4))
    with contextlib.ExitStack() as opened:
        for _ in range(150):  # twice as many as there may be
            opened.enter_context(raw(url, text))
        RemoteEnv(url, tries=1).reset(seed=0)


def test_sessions_beyond_the_limit_are_refused_and_the_others_play_on(serving: Serving) -> None:
    url = serving(make("telegrams-v0"), limits=Limits(sessions=5))
    envs = [RemoteEnv(url) for _ in range(5)]
    for _ in range(20):
        with pytest.raises(RemoteEnvError, match="its most sessions, 5"):
            RemoteEnv(url, tries=1)
    for env in envs:
        env.reset(seed=0)
