"""What a server can do to those who ask it: each answer of these is sent by a real one, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import re
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from llm_dec_pomdp import http
from llm_dec_pomdp.agents import Remote, RemoteError, Request, Sampling
from llm_dec_pomdp.agents.io.models import ModelError, load_policy
from llm_dec_pomdp.types import conversation

KEY = "sk-secret-0123456789"
GOOD = b'{"choices": [{"message": {"content": "well"}}]}'
Talk = Callable[[socket.socket], None]
Waits = list[tuple[float, bool]]


def full(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Server:
    """Answers the nth connection with the nth of its answers, later ones with the last, and keeps what it heard."""

    def __init__(self) -> None:
        self.answers: list[bytes | Talk] = []
        self.heard: list[bytes] = []
        self.connections = 0
        self.over = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._socket.accept()[0]
                threading.Thread(target=self._talk, args=[connection], daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            self.connections += 1
            answer = self.answers[min(self.connections, len(self.answers)) - 1]
            self.heard.append(connection.recv(1 << 16))
            if callable(answer):
                answer(connection)
            else:
                connection.sendall(answer)

    def close(self) -> None:
        self.over.set()
        self._socket.close()


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


def ask(server: Server, *, tries: int = 1, timeout: float = 5.0, api_key: str | None = None) -> str:
    policy = Remote(server.url, "m", tries=tries, timeout=timeout, api_key=api_key)
    [[answer]] = policy.generate([Request("a", conversation("hello"))], Sampling())
    return answer.text


# --- redirects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["302 Found", "307 Again"])
def test_a_redirect_takes_the_key_nowhere(server: Server, status: str) -> None:
    other = Server()
    other.answers = [full(GOOD)]
    server.answers = [full(b"", status, f"Location: {other.url}/chat/completions")]
    with pytest.raises(RemoteError, match=r"HTTP 30\d"):
        ask(server, tries=3, api_key=KEY)
    assert other.heard == []
    assert len(server.heard) == 1
    other.close()


# --- limits -----------------------------------------------------------------------------------------------------------


def drip(server: Server, before: bytes, piece: bytes) -> Talk:
    def talk(connection: socket.socket) -> None:
        connection.sendall(before)
        while not server.over.wait(0.02):
            connection.sendall(piece)

    return talk


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", marks=pytest.mark.slow),
    ],
    ids=["endless body", "chunks"],
)
def test_a_server_that_drips_is_given_up_in_time(server: Server, before: bytes, piece: bytes) -> None:
    server.answers = [drip(server, before, piece)]
    with pytest.raises(RemoteError, match="timed out"):
        ask(server, timeout=0.4)


def flood(before: bytes, piece: bytes) -> Talk:
    def talk(connection: socket.socket) -> None:
        connection.sendall(before)
        while True:
            connection.sendall(piece)

    return talk


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 4096),
        (b"HTTP/1.1 200 OK\r\n", b"X: x\r\n" * 1024),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1" + b"0" * 18 + b"\r\n\r\n", b" " * 65536),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffff\r\n", b" " * 65536),
    ],
    ids=["one header", "many headers", "body", "announced", "chunk"],
)
def test_a_server_that_never_stops_is_given_up(server: Server, before: bytes, piece: bytes) -> None:
    server.answers = [flood(before, piece)]
    with pytest.raises(RemoteError, match=r"too long|longer than 1048576 bytes"):
        ask(server, timeout=10)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        full(b"[" * 200_000),
        pytest.param(b"", marks=pytest.mark.slow),
        pytest.param(b"hello\r\n\r\n", marks=pytest.mark.slow),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + GOOD[:20], marks=pytest.mark.slow),
    ],
    ids=["a wrong chunk", "brackets", "nothing", "no HTTP", "a short body"],
)
def test_whatever_breaks_is_asked_again_and_has_one_type(server: Server, answer: bytes) -> None:
    server.answers = [answer]
    with pytest.raises(RemoteError, match="2 tries"):
        ask(server, tries=2)
    server.answers = [answer, *[full(GOOD)] * 4]
    server.connections = 0
    assert ask(server, tries=2) == "well"


def test_a_connection_that_is_reset_is_asked_again(server: Server) -> None:
    def reset(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # its close sends a reset

    server.answers = [reset, full(GOOD)]
    assert ask(server, tries=2) == "well"


def test_it_is_asked_while_a_loop_runs_here_as_in_a_notebook_or_from_a_finalizer(server: Server) -> None:
    server.answers = [full(GOOD)]

    async def inside() -> str:
        return ask(server)

    assert asyncio.run(inside()) == "well"


def test_a_connection_that_the_server_closed_in_between_costs_no_try(server: Server) -> None:
    server.answers = [full(GOOD)]  # closes each connection after its answer, without a word before
    remote = Remote(server.url, "m", tries=1)
    for _ in range(20):
        [[answer]] = remote.generate([Request("a", conversation("hello"))], Sampling())
        assert answer.text == "well"


def test_no_cookie_is_sent_back(server: Server) -> None:
    server.answers = [full(GOOD, "200 OK", "Set-Cookie: session=1")]
    remote = Remote(server.url, "m")
    for _ in range(2):
        remote.generate([Request("a", conversation("hello"))], Sampling())
    assert len(server.heard) == 2
    assert b"session" not in b"".join(server.heard)


# --- waiting ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """How long each try was waited for, and whether that was given up; below a minute a hundredth of it is."""
    noted: Waits = []

    class Hurried(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            ended = super().wait(timeout / 100 if timeout < 60 else timeout)
            noted.append((timeout, ended))
            return ended

    monkeypatch.setattr("llm_dec_pomdp.agents.remote.threading", SimpleNamespace(Event=Hurried))
    return noted


def test_the_next_try_comes_when_the_server_wants_it_or_after_growing_waits_with_a_limit(
    server: Server, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_LONGEST_WAIT", 9.0)
    answers = ("503 Busy",), ("429 Too Many", "Retry-After: 7"), ("503 Busy", "Retry-After: 999"), ("503 Busy",)
    server.answers = [*(full(b"", *answer) for answer in answers), full(GOOD)]
    assert ask(server, tries=5) == "well"
    assert waits == [(0.0, False), (0.25, False), (7.0, False), (9.0, False), (2.0, False)]


def test_a_wish_to_wait_is_read_from_seconds_and_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "time", SimpleNamespace(time=lambda: 1e9))
    dates = {email.utils.formatdate(1e9 + late, usegmt=True): max(late, 0.0) for late in (100.0, -100.0)}
    for header, seconds in ({"7": 7.0, " 0 ": 0.0, "999999999": 999999999.0} | dates).items():
        assert http.wait_asked(header) == seconds
    for header in ("-5", "1e9", "9" * 5000, "nan", "", None):
        assert http.wait_asked(header) is None


@pytest.mark.parametrize("status", ["400 Bad", "404 Not Found"])
def test_what_would_fail_again_is_not_asked_again(server: Server, status: str) -> None:
    server.answers = [full(b'{"error": "why"}', status)]
    with pytest.raises(RemoteError, match=f"{status}.*why"):
        ask(server, tries=3)
    assert server.connections == 1


def test_the_first_sample_that_fails_ends_the_others(server: Server, waits: Waits) -> None:
    """The one that waits before it is tried again, too."""
    server.answers = [full(b"", "503 Busy", "Retry-After: 3000"), full(b"", "401 No")]
    policy = Remote(server.url, "m", concurrency=2)
    with pytest.raises(RemoteError, match="gave no usable answer"):
        policy.generate([Request("a", conversation("hello"), seeds) for seeds in ((1,), tuple(range(100)))], Sampling())
    assert (60.0, True) in waits
    assert len(server.heard) < 104


# --- keys and addresses -----------------------------------------------------------------------------------------------


def test_a_key_that_a_server_repeats_is_not_told_on(server: Server) -> None:
    server.answers = [full(f"wrong key {KEY}".encode(), f"401 {KEY} is wrong")]
    with pytest.raises(RemoteError, match=r"\[key\] is wrong: wrong key \[key\]") as caught:
        ask(server, api_key=KEY)
    chain = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert all(KEY not in repr(error) for error in chain)
    assert KEY.encode() in server.heard[0]
    assert KEY not in repr(Remote(server.url, "m", api_key=KEY))


@pytest.mark.parametrize("key", [KEY + "\n", KEY + "\r\nX: y", "schlüssel" + KEY, KEY + "\u2028", KEY + " "])
def test_a_key_that_no_header_can_hold_is_refused_unseen(key: str) -> None:
    with pytest.raises(ValueError, match="api_key has") as caught:
        Remote("http://127.0.0.1:9/v1", "m", api_key=key)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:pa55@host/v1",
        "http://me:pa/pa55@host:1/v1",
        "https://host/v1?key=pa55",
        "https://host/v1#pa55",
        "ftp://me:pa55@host/v1",
        "http://host:pa55@x:y/v1",
    ],
)
def test_an_address_with_secrets_is_refused_without_them(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        Remote(url, "m")
    assert "pa55" not in str(caught.value)
    if url.startswith("http") and "#" not in url:
        with pytest.raises((ModelError, ValueError)) as caught:
            load_policy(f"{url}#model")
        assert "pa55" not in str(caught.value)


@pytest.mark.parametrize("url", ["http:///v1", "http://host:port/v1", "http://ho st/v1", "http://[::1/v1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=re.escape(url)):
        Remote(url, "m")
