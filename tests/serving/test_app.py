"""The application, request by request, in this process."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import threading
import tracemalloc
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from llm_dec_pomdp.envs import make
from llm_dec_pomdp.envs.tools import kit
from llm_dec_pomdp.envs.wrappers import WithTools
from llm_dec_pomdp.serving import app
from llm_dec_pomdp.serving.sessions import Limits, Sessions


def served(token: str | None = None, **limits: Any) -> app.App:
    return app.App(Sessions(make("telegrams-v0"), Limits(**limits)), token, threads=1)


def talk(to: app.App, scope: Mapping[str, Any], *messages: Any) -> list[Any]:
    """All that is sent for some messages; after them nothing comes, ever."""
    sent: list[Any] = []
    waiting = list(messages)

    async def receive() -> Any:
        return waiting.pop(0) if waiting else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(to(dict(scope), receive, send))
    return sent


def ask(to: app.App, path: str, *bodies: bytes, method: str = "POST", **headers: str) -> tuple[int, str]:
    """Status and body of the answer to a request that comes in pieces; the last piece is the last of it."""
    pairs = [
        (name.replace("_", "-").encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()
    ]
    scope = {"type": "http", "method": method, "path": path, "headers": pairs}
    pieces = [
        {"type": "http.request", "body": body, "more_body": place < len(bodies) - 1}
        for place, body in enumerate(bodies)
    ]
    start, body = talk(to, scope, *pieces)
    return start["status"], body["body"].decode()


def converse(to: app.App, *texts: str) -> list[Any]:
    """What is answered over a WebSocket, whose client then goes away."""
    scope = {"type": "websocket", "path": "/ws", "headers": [(b"host", b"127.0.0.1:8000")]}
    received = [{"type": "websocket.receive", "text": text} for text in texts]
    sent = talk(to, scope, {"type": "websocket.connect"}, *received, {"type": "websocket.disconnect"})
    return [json.loads(message["text"]) for message in sent if message["type"] == "websocket.send"]


def test_a_request_is_answered_with_json() -> None:
    status, body = ask(served(), "/open", b"{", b"}")
    assert (status, json.loads(body)["description"]["facts"]["name"]) == (200, "telegrams-v0")


def test_health_tells_how_full_the_server_is() -> None:
    server = served(token="secret", sessions=3)
    ask(server, "/open", b"{}", authorization="Bearer secret")
    status, body = ask(server, "/health", method="GET", host="elsewhere")
    assert (status, json.loads(body)) == (
        200,
        {"status": "healthy", "environment": "telegrams-v0", "sessions": 1, "most_sessions": 3},
    )


@pytest.mark.parametrize(
    ("path", "bodies", "method", "headers", "status", "reason"),
    [
        ("/open", [b"garbage\xff"], "POST", {}, 400, "no JSON object"),
        ("/open", [b"{}"], "PUT", {}, 405, "POST to it"),
        ("/etc/passwd", [b"{}"], "GET", {}, 405, "POST to it"),
        ("/etc/passwd", [b"{}"], "POST", {}, 404, "there is nothing at '/etc/passwd'"),
        ("/open", [b"x" * (1 << 23)] * 3, "POST", {}, 413, "longer than 16777216 bytes"),
        ("/open", [], "POST", {"content_length": "99999999999"}, 413, "longer than 16777216 bytes"),
        ("/open", [b"{}"], "POST", {"origin": "http://localhost"}, 403, "web pages"),
        ("/open", [b"{}"], "POST", {"host": "rebound.example:8000"}, 403, "is not this machine"),
        ("/open", [b"{}"], "POST", {"host": "[::1"}, 403, "is not this machine"),
    ],
)
def test_what_is_refused_has_a_status_and_a_sentence(
    path: str, bodies: list[bytes], method: str, headers: dict[str, str], status: int, reason: str
) -> None:
    answered, body = ask(served(), path, *bodies, method=method, **headers)
    assert answered == status
    assert reason in body


def test_a_request_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "BODY_SECONDS", 0.01)
    assert ask(served(), "/open") == (408, "the request did not come within 0 s")


def test_bodies_are_counted_while_they_come_and_ordinary_requests_are_answered_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "MOST_TRAFFIC", 1_000_000)
    monkeypatch.setattr(app, "BODY_SECONDS", 0.5)
    server, statuses, scope = served(), list[int](), {"type": "http", "method": "POST", "path": "/open"}

    async def send(message: Any) -> None:
        if "status" in message:
            statuses.append(message["status"])

    async def unfinished() -> None:
        pieces = [{"type": "http.request", "body": b"x" * 100_000, "more_body": True}] * 5

        async def receive() -> Any:
            return pieces.pop() if pieces else await asyncio.Event().wait()

        await server({**scope, "headers": [(b"host", b"localhost")]}, receive, send)

    async def many() -> int:
        waiting = [asyncio.ensure_future(unfinished()) for _ in range(10)]
        await asyncio.sleep(0.1)
        taken = server.traffic.bytes
        assert (await asyncio.to_thread(ask, server, "/open", b"{}"))[0] == 200
        await asyncio.gather(*waiting)
        return taken

    assert 500_000 < asyncio.run(many()) <= 1_000_000
    assert sorted(statuses) == [408] * 2 + [503] * 8
    assert server.traffic.bytes == 0


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("", 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        ("Bearer secret", 200),
        ("bearer secret", 200),
        ("Basic " + base64.b64encode(b"me:secret").decode(), 200),
        ("Basic " + base64.b64encode(b"secret:").decode(), 401),
        ("Basic not base64", 401),
        ("Basic " + base64.b64encode(b"\xff:\xff").decode(), 401),
    ],
)
def test_a_token_is_needed_where_one_is_set(authorization: str, status: int) -> None:
    assert ask(served("secret"), "/open", b"{}", host="elsewhere", authorization=authorization)[0] == status


def test_slow_calls_of_one_client_do_not_keep_others_from_the_server() -> None:
    begun, release = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        begun.set()
        release.wait()
        return "done"

    env = WithTools(make("telegrams-v0"), [kit("slow", wait, bounded=True)])
    server = app.App(Sessions(env, Limits()), None, threads=1)
    opened = json.loads(ask(server, "/open", b"{}")[1])["session"]
    place = json.loads(ask(server, "/reset", json.dumps({"session": opened, "place": 0}).encode())[1])["place"]
    texts = json.dumps({"session": opened, "place": place, "texts": dict.fromkeys(env.possible_agents, "wait()")})
    with ThreadPoolExecutor(2) as clients:
        stepped = clients.submit(ask, server, "/step", texts.encode())
        try:
            assert begun.wait(60)
            assert ask(server, "/health", method="GET")[0] == 200
            assert clients.submit(ask, server, "/open", b"{}").result(60)[0] == 200
        finally:
            release.set()
        assert stepped.result()[0] == 200


def test_a_conversation_goes_on_after_what_was_wrong() -> None:
    wrong = ["garbage", "[]", '{"type": "mcp"}', '{"type": "step", "data": {"texts": {"agent_0": 1}}}', '{"type": 1}']
    step = {"type": "step", "data": {"texts": {"agent_0": "a", "agent_1": "b", "agent_2": "c"}}}
    reset = {"type": "reset", "data": {"seed": 0, "task_id": None, "episode_id": "x"}}
    server = served()
    *errors, begun, state, over = converse(server, *wrong, json.dumps(reset), '{"type": "state"}', json.dumps(step))
    assert [error["data"]["code"] for error in errors] == [
        *("INVALID_JSON", "INVALID_JSON", "VALIDATION_ERROR", "VALIDATION_ERROR", "VALIDATION_ERROR")
    ]
    local = make("telegrams-v0")
    observations, infos = local.reset(seed=0)
    assert begun["data"] == {
        "observation": {
            "texts": observations,
            "roles": {agent: local.role(agent) for agent in local.agents},
            "asked": local.agents,
            "rewards": {},
            "infos": infos,
            "events": [],
        },
        "reward": None,
        "done": False,
    }
    assert json.loads(state["data"]["state"])["turn"] == 0
    _, rewards, *_ = local.step(step["data"]["texts"])
    assert (over["data"]["reward"], over["data"]["done"]) == (rewards["agent_0"], True)
    assert over["data"]["observation"]["rewards"] == rewards
    assert json.loads(ask(server, "/health", method="GET")[1])["sessions"] == 0


def test_a_conversation_too_many_is_told_so_and_ended() -> None:
    server = served(sessions=1)
    ask(server, "/open", b"{}")
    [error] = converse(server)  # at once: it would hold a connection
    assert error["data"]["code"] == "CAPACITY_REACHED"


@pytest.mark.parametrize("texts", [[], ["x"], ['{"type": "reset"}', '{"type": "state"}']])
def test_a_conversation_that_falls_silent_is_ended_and_gives_its_session_back(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "BODY_SECONDS", 0.05)
    scope = {"type": "websocket", "path": "/ws", "headers": [(b"host", b"localhost")]}
    messages = [{"type": "websocket.receive", "text": text} for text in texts]
    server = served()
    *_, last = talk(server, scope, {"type": "websocket.connect"}, *messages)
    assert (last["type"], last["reason"]) == ("websocket.close", "idle")
    assert json.loads(ask(server, "/health", method="GET")[1])["sessions"] == 0


def test_an_idle_conversation_is_ended() -> None:
    server = served(idle=0.01)
    scope = {"type": "websocket", "path": "/ws", "headers": [(b"host", b"localhost")]}
    *_, last = talk(server, scope, {"type": "websocket.connect"})
    assert (last["type"], last["reason"]) == ("websocket.close", "idle")


@pytest.mark.parametrize(("path", "host", "status"), [("/ws", "elsewhere", 403), ("/else", "localhost", 404)])
def test_a_websocket_is_refused_like_a_request(path: str, host: str, status: int) -> None:
    scope = {"type": "websocket", "path": path, "headers": [(b"host", host.encode())]}
    start, _ = talk(served(), scope, {"type": "websocket.connect"})
    assert (start["type"], start["status"]) == ("websocket.http.response.start", status)


def test_a_body_that_is_broken_off_is_given_back_at_once() -> None:
    server = served()
    scope = {"type": "http", "method": "POST", "path": "/open", "headers": [(b"host", b"localhost")]}
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(5):
            pieces = [{"type": "http.request", "body": b"x" * 1_000_000, "more_body": True} for _ in range(4)]
            assert talk(server, scope, *pieces, {"type": "http.disconnect"})[0]["status"] == 400
        del pieces
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert held < 4_000_000
