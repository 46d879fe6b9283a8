"""OpenEnv's protocol with forks and tasks, over the WebSocket of a server."""

from __future__ import annotations

import http.client
import json
import threading
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from llm_dec_pomdp.envs import make
from llm_dec_pomdp.envs.tools import kit
from llm_dec_pomdp.envs.wrappers import WithTools
from llm_dec_pomdp.serving.sessions import Limits

Serving = Callable[..., str]
Connect = Callable[..., Any]
TEXTS = {"agent_0": "a", "agent_1": "b", "agent_2": "c"}
NAME = "a-name-of-a-session"


def ask(connection: Any, kind: str, **data: Any) -> Any:
    """Return the answer to a message."""
    return send(connection, json.dumps({"type": kind, "data": data}))


def send(connection: Any, message: str | bytes) -> Any:
    connection.send(message)
    return json.loads(connection.recv(60))


def test_an_episode_of_openenvs_protocol_is_the_one_of_the_environment(serving: Serving, connect: Connect) -> None:
    local = make("telegrams-v0")
    there = connect(serving(make("telegrams-v0")))
    observations, infos = local.reset(seed=0)
    assert ask(there, "reset", seed=0, task_id=None, episode_id="x")["data"] == {
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
    assert json.loads(ask(there, "state")["data"]["state"])["turn"] == 0
    _, rewards, *_ = local.step(TEXTS)
    over = ask(there, "step", texts=TEXTS)["data"]
    assert (over["reward"], over["done"]) == (rewards["agent_0"], True)
    assert over["observation"]["rewards"] == rewards


@pytest.mark.parametrize(
    ("message", "code", "named"),
    [
        ("garbage", "INVALID_JSON", ""),
        (b"{\xff}", "INVALID_JSON", ""),
        ("[]", "INVALID_JSON", "list"),
        ("[" * 100_000, "INVALID_JSON", ""),
        ('{"type": 1}', "VALIDATION_ERROR", "'type' is 1"),
        ('{"type": "mcp"}', "UNKNOWN_TYPE", "'mcp'"),
        ('{"type": "reset", "data": {"seed": "0"}}', "VALIDATION_ERROR", "'seed' is '0'"),
        ('{"type": "reset", "data": {"seed": true}}', "VALIDATION_ERROR", "'seed' is True"),
        ('{"type": "reset", "data": {"seed": -1}}', "EXECUTION_ERROR", "raised Error"),
        ('{"type": "reset", "data": {"max_turns": 0}}', "EXECUTION_ERROR", "max_turns is 0"),
        ('{"type": "reset", "data": {"task_id": "../../etc/passwd"}}', "NO_SUCH_TASK", "'../../etc/passwd'"),
        ('{"type": "reset", "data": {"index": 1000000}}', "NO_SUCH_TASK", "1000000"),
        ('{"type": "step", "data": {"texts": {"agent_0": 1}}}', "VALIDATION_ERROR", "1 for 'agent_0'"),
        ('{"type": "step"}', "VALIDATION_ERROR", "'texts' is None"),
        ('{"type": "fork", "data": {"tasks": [{"id": "os:system"}]}}', "NO_SUCH_TASK", "'os:system'"),
        ('{"type": "fork", "data": {"tasks": ["x"]}}', "VALIDATION_ERROR", "'id' is None"),
    ],
)
def test_a_wrong_message_is_an_error_and_the_episode_stays_where_it_was(
    message: str | bytes, code: str, named: str, serving: Serving, connect: Connect
) -> None:
    there = connect(serving(make("telegrams-v0")))
    ask(there, "reset", seed=0)
    error = send(there, message)
    assert (error["type"], error["data"]["code"]) == ("error", code)
    assert named in error["data"]["message"]
    assert ask(there, "state")["data"]["step_count"] == 0


def test_a_fork_changes_neither_its_state_nor_the_episode(serving: Serving, connect: Connect) -> None:
    there = connect(serving(make("telegrams-v0", max_turns=2)))
    begun = ask(there, "reset", seed=3, fork=0)["data"]["fork"]
    once, twice = (ask(there, "step", texts=TEXTS, fork=begun["number"])["data"]["fork"] for _ in "12")
    assert once.pop("number") != twice.pop("number")
    assert once == twice
    assert ask(there, "step", texts=TEXTS)["data"]["code"] == "EXECUTION_ERROR"  # the episode has not begun
    assert ask(there, "state", forget=[begun["number"]])["type"] == "state"
    assert ask(there, "step", texts=TEXTS, fork=begun["number"])["data"]["code"] == "SESSION_ERROR"


@pytest.mark.parametrize("change", [{"corpus": "/etc/passwd"}, {"corpus": "world:1", "new": "x"}])
def test_a_client_changes_no_field_that_the_environment_reads(
    change: dict[str, str], serving: Serving, connect: Connect
) -> None:
    env = make("research-v0")
    there, name = connect(serving(env)), env.items[0].id
    assert ask(there, "fork", tasks=[{"id": name, "fields": change}])["data"]["code"] == "VALIDATION_ERROR"
    assert ask(there, "fork", tasks=[{"id": name, "fields": {"answer": "another"}}])["type"] == "fork"


@pytest.mark.parametrize("env_id", ["humaneval-v0", "coophumaneval-v1", "mbpp-v0"])
def test_a_judge_that_all_clients_share_runs_no_tests_of_one(env_id: str, serving: Serving, connect: Connect) -> None:
    env = make(env_id)
    there, name = connect(serving(env)), env.items[0].id
    refused = ask(there, "fork", tasks=[{"id": name, "fields": {"test": "def check(candidate):\n    pass\n"}}])
    assert refused["data"]["code"] == "VALIDATION_ERROR"
    allowed = ask(there, "fork", tasks=[{"id": name, "reference": ["another", "pair"]}])
    assert allowed["data"]["description"]["facts"]["hidden_fields"] == []


def test_tasks_come_in_pages(serving: Serving, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llm_dec_pomdp.serving.protocol._PAGE", 1)
    env = make("telegrams-v0")
    page = ask(connect(serving(env)), "tasks", first=2)["data"]
    assert ([row["id"] for row in page["rows"]], page["number"]) == ([env.items[2].id], len(env.items))


def test_sessions_share_nothing_unless_they_share_a_name_that_outlives_its_connections(
    serving: Serving, connect: Connect
) -> None:
    url = serving(make("telegrams-v0", max_turns=3))
    connections = connect(url), connect(url), connect(url, NAME), connect(url, NAME)
    for connection in connections[:3]:
        ask(connection, "reset", seed=0)
    ask(connections[0], "step", texts=TEXTS)
    ask(connections[2], "step", texts=TEXTS)
    assert [ask(connection, "state")["data"]["step_count"] for connection in connections] == [1, 0, 1, 1]
    for connection in connections:
        connection.close()
    assert ask(connect(url, NAME), "state")["data"]["step_count"] == 1


def test_slow_calls_of_one_client_do_not_keep_others_from_the_server(
    serving: Serving, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        begun.set()
        release.wait()
        return "done"

    monkeypatch.setattr("os.cpu_count", lambda: 1)
    url = serving(WithTools(make("telegrams-v0"), [kit("slow", wait, bounded=True)]))
    slow = connect(url)
    ask(slow, "reset")
    try:
        slow.send(json.dumps({"type": "step", "data": {"texts": dict.fromkeys(TEXTS, "wait()")}}))
        assert begun.wait(60)
        assert ask(connect(url), "fork")["type"] == "fork"
    finally:
        release.set()
    assert json.loads(slow.recv(60))["type"] == "observation"


# --- refusals ---------------------------------------------------------------------------------------------------------


def get(url: str, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    status, body = answer.status, answer.read()
    connection.close()
    return status, body


def test_health_needs_no_token_and_counts_sessions(serving: Serving, connect: Connect) -> None:
    url = serving(make("telegrams-v0"), token="secret", limits=Limits(sessions=3))
    connect(url, additional_headers={"authorization": "Bearer secret"})
    status, body = get(url, "/health", host="elsewhere")
    expected = {"status": "healthy", "environment": "telegrams-v0", "sessions": 1, "most_sessions": 3}
    assert (status, json.loads(body)) == (200, expected)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/etc/passwd", {}, 404),
        ("/metadata", {"origin": "http://localhost"}, 403),
        ("/metadata", {"host": "rebound.example:8000"}, 403),
        ("/metadata", {"host": "[::1"}, 403),
        ("/metadata", {"host": "[::1]:8000"}, 200),
    ],
)
def test_web_pages_and_names_of_other_hosts_are_refused(
    path: str, headers: dict[str, str], status: int, serving: Serving
) -> None:
    assert get(serving(make("telegrams-v0")), path, **headers)[0] == status


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("", 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        ("bearer secret", 200),
        ("Basic " + b64encode(b"me:secret").decode(), 200),
        ("Basic " + b64encode(b"secret:").decode(), 401),
        ("Basic not base64", 401),
        ("Basic " + b64encode(b"\xff:\xff").decode(), 401),
    ],
)
def test_a_token_is_needed_where_one_is_set(authorization: str, status: int, serving: Serving) -> None:
    url = serving(make("telegrams-v0"), token="secret")
    assert get(url, "/metadata", host="elsewhere", authorization=authorization)[0] == status


@pytest.mark.parametrize(
    ("session_id", "headers", "status"),
    [("", {"origin": "http://localhost"}, 403), ("guessed", {}, 400), ("x" * 101, {}, 400)],
)
def test_a_websocket_is_refused_like_a_request(
    session_id: str, headers: dict[str, str], status: int, serving: Serving, connect: Connect
) -> None:
    with pytest.raises(Exception, match=f"HTTP {status}"):
        connect(serving(make("telegrams-v0")), session_id, additional_headers=headers)


def test_an_idle_connection_and_one_with_a_message_that_is_too_long_end(serving: Serving, connect: Connect) -> None:
    closed = pytest.importorskip("websockets.exceptions").ConnectionClosed
    idle = connect(serving(make("telegrams-v0"), limits=Limits(idle=0.05)))
    with pytest.raises(closed, match="1001"):
        idle.recv(60)
    url = serving(make("telegrams-v0"))
    with pytest.raises(closed):
        send(connect(url), "x" * ((1 << 24) + 1))
    assert ask(connect(url), "reset")["type"] == "observation"
