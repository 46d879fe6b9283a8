"""The tools of an agent over MCP: the client of the `mcp` package, and plain requests."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from llm_dec_pomdp.envs import make
from llm_dec_pomdp.envs.tools import Limits, kit
from llm_dec_pomdp.envs.tools.ready import calculator, notes
from llm_dec_pomdp.envs.wrappers import WithTools
from llm_dec_pomdp.serving.sessions import Limits as Limited

mcp = pytest.importorskip("mcp.client.client", reason="mcp 2 is not installed: pip install -e '.[mcp]'")
Serving = Callable[..., str]
NAME = "a-name-of-a-session"
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def with_tools(**options: Any) -> WithTools:
    return WithTools(make("tldr-v0"), [calculator(), notes()], **options)


class Client:
    """Sends single requests, and keeps the name of its session."""

    def __init__(self, url: str, query: str = "", **headers: str) -> None:
        self.host, self.query = urlsplit(url).netloc, query
        self.headers = {"content-type": "application/json", "accept": "application/json", **headers}

    def send(self, body: bytes, method: str = "POST") -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request(method, f"/mcp?{self.query}", body, self.headers)
        answer = connection.getresponse()
        status, session, text = answer.status, answer.getheader("mcp-session-id"), answer.read()
        connection.close()
        if session:
            self.headers["mcp-session-id"] = session
        return status, json.loads(text) if text else None

    def ask(self, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        status, reply = self.send(json.dumps(message).encode())
        assert (status, reply["id"]) == (200, 7)
        return reply.get("result", reply.get("error"))

    def call(self, name: str, **arguments: Any) -> tuple[str, bool]:
        result = self.ask("tools/call", name=name, arguments=arguments)
        return result["content"][0]["text"], result["isError"]


def half() -> str:
    """Answer with a half of a character."""
    return "a\ud800b"


def test_the_client_of_mcp_plays_the_episode_of_its_address(serving: Serving) -> None:
    env = WithTools(make("tldr-v0"), [notes(), kit("halves", half)], users={"notes": ["summary"]})
    observations, _ = env.reset(options={"index": 3})
    url = serving(env)

    async def played() -> list[Any]:
        async with (
            mcp.Client(f"{url}/mcp?agent=summary&index=3") as summariser,
            mcp.Client(f"{url}/mcp") as other,
            mcp.Client(f"{url}/mcp?agent=agent_1") as elaborator,
        ):
            assert summariser.instructions == observations["agent_0"]
            results = [
                await summariser.call_tool("note", {"text": "a </tool_call> fern"}),
                await summariser.call_tool("read_notes", {}),
                await other.call_tool("read_notes", {}),
                await summariser.call_tool("half", {}),
                await summariser.call_tool("forget", {"number": 5}),
                await summariser.call_tool("forget", {"numbr": 5}),
            ]
            with pytest.raises(mcp.MCPError, match="no tool 'rm'"):
                await summariser.call_tool("rm", {})
            listed = [await client.list_tools() for client in (summariser, elaborator)]
            assert listed[0].tools[0].input_schema["required"] == ["text"]
            return [
                *([tool.name for tool in tools.tools] for tools in listed),
                *((result.content[0].text, result.is_error) for result in results),
            ]

    assert asyncio.run(played()) == [
        ["note", "read_notes", "forget", "half"],
        ["half"],
        ("kept as note 1", False),
        ("1. a </tool_call> fern", False),
        ("There are no notes.", False),
        ("a\ufffdb", False),
        ("forget: there is no note 5; there are 1", True),
        ("unknown argument 'numbr' of forget; it takes number; did you mean number?", True),
    ]


def test_a_session_ends_with_its_client(serving: Serving) -> None:
    url = serving(with_tools(), limits=Limited(sessions=1))
    first, second = Client(url), Client(url)
    first.ask("initialize", **INITIALIZE)
    assert "--sessions" in second.ask("initialize", **INITIALIZE)["message"]
    assert first.send(b"", method="DELETE") == (200, None)
    second.ask("initialize", **INITIALIZE)
    status, gone = first.send(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_notes"}}')
    assert (status, gone["error"]["code"]) == (404, -32000)


def test_a_program_and_agents_share_an_episode(serving: Serving, connect: Callable[..., Any]) -> None:
    url = serving(with_tools(limits={"note": Limits(calls=2, price=0.25)}))
    elaboration, summary = (Client(url, f"session_id={NAME}&agent={role}") for role in ("elaboration", "summary"))
    for client in (elaboration, summary):
        client.ask("initialize", **INITIALIZE)
    for text in "abc":
        elaboration.call("note", text=text)
    assert elaboration.call("read_notes")[0] == "1. a\n2. b"
    assert summary.call("read_notes")[0] == "There are no notes."
    elaboration.send(b"", "DELETE")  # the agent leaves the episode, which continues
    program = connect(url, NAME)
    program.send(json.dumps({"type": "step", "data": {"texts": {"agent_0": "A fern.", "agent_1": "calculate('1')"}}}))
    data = json.loads(program.recv(60))["data"]
    assert data["reward"] == -0.5
    outputs = [details["output"] for kind, _, details in data["observation"]["events"] if kind == "result"]
    assert outputs[:2] + outputs[-1:] == ["kept as note 1", "kept as note 2", "1"]
    assert summary.call("read_notes") == ("agent_0 cannot call now; agent_1 has to write", True)


def test_openenvs_session_of_tools_is_named_in_parameters(serving: Serving) -> None:
    client = Client(serving(with_tools()))
    name = client.ask("openenv/session/create")["session_id"]
    for call in ({"name": "note", "arguments": {"text": "a"}}, {"name": "read_notes", "arguments": {}}):
        result = client.ask("tools/call", session_id=name, **call)
    assert result["content"][0]["text"] == "1. a"
    assert client.ask("openenv/session/close", session_id=name)["closed"]
    assert client.ask("tools/call", session_id=name, **call)["code"] == -32000


def test_in_another_environment_a_call_is_the_action_of_a_turn(serving: Serving) -> None:
    env, subtask = make("research-v0"), "Who taught Greta Stakel?"
    url = serving(make("research-v0"))
    main, sub = (Client(url, f"session_id={NAME}&index=1&agent={agent}") for agent in ("agent_0", "agent_1"))
    main.ask("initialize", **INITIALIZE)
    env.reset(options={"index": 1})
    assert main.call("ask", to="reader", subtask=subtask) == ("", False)
    assert main.call("ask", to="reader", subtask="Who?")[0] == "agent_0 cannot call now; agent_1 has to write"
    env.step({"agent_0": f'ask("reader", "{subtask}")'})
    found, *_ = env.step({"agent_0": "", "agent_1": f'search("{subtask}")'})
    assert sub.call("search", query=subtask) == (found["agent_1"], False)


CALL = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_notes"}}'
BEGIN = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}).encode()


@pytest.mark.parametrize(
    ("body", "query", "headers", "status", "named"),
    [
        (b"no JSON", "", {}, 400, "Parse error"),
        (b"[" * 100_000, "", {}, 400, "Parse error"),
        (b"[" + CALL + b"]", "", {}, 400, "Validation error"),
        (b"{}", "", {}, 200, "no method"),  # of OpenEnv's validation
        (CALL, "", {}, 200, "initialize"),
        (CALL, "", {"mcp-session-id": "guessed"}, 404, "session"),
        (CALL, "session_id=guessed", {}, 200, "session"),
        (BEGIN, "session_id=guessed", {}, 200, "16 to 100 characters"),
        (BEGIN, "agent=sumary", {}, 200, "sumary"),
        (BEGIN, "sed=1", {}, 400, "sed"),
        (BEGIN, "seed=x", {}, 200, "seed is 'x'"),
        (BEGIN, "task_id=../../etc/passwd", {}, 200, "no task"),
    ],
)
def test_a_refusal_is_an_error_of_json_rpc_and_starts_no_session(
    body: bytes, query: str, headers: dict[str, str], status: int, named: str, serving: Serving
) -> None:
    url = serving(with_tools(), limits=Limited(sessions=1))
    answered, reply = Client(url, query, **headers).send(body)
    assert (answered, named in reply["error"]["message"]) == (status, True), reply
    assert "error" not in Client(url).send(BEGIN)[1]


@pytest.mark.parametrize(
    ("method", "length", "headers", "status"),
    [
        ("POST", 2, {"authorization": "Bearer wrong"}, 401),
        ("POST", 2, {"origin": "http://localhost"}, 403),
        ("POST", (1 << 20) + 1, {}, 413),
        ("GET", 0, {}, 405),
    ],
)
def test_access_and_size_are_limited(
    method: str, length: int, headers: dict[str, str], status: int, serving: Serving
) -> None:
    url = serving(with_tools(), token="secret")
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    given = {"content-length": str(length), "content-type": "application/json", "authorization": "Bearer secret"}
    connection.request(method, "/mcp", headers={**given, **headers})  # the answer does not need the body
    assert connection.getresponse().status == status
    connection.close()


def test_a_body_that_does_not_come_is_refused(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llm_dec_pomdp.serving.mcp.BODY_SECONDS", 0.05)
    connection = http.client.HTTPConnection(urlsplit(serving(with_tools())).netloc, timeout=60)
    connection.request("POST", "/mcp", headers={"content-length": "9", "content-type": "application/json"})
    assert connection.getresponse().status == 408
    connection.close()
