"""The tools of an agent over MCP: plain messages to the application, and the client of the `mcp` package."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from llm_dec_pomdp.envs import TextDecPOMDP, make
from llm_dec_pomdp.envs.tools import Limits, kit
from llm_dec_pomdp.envs.tools.ready import calculator, notes
from llm_dec_pomdp.envs.wrappers import WithTools
from llm_dec_pomdp.serving import app, sessions


def with_tools(**options: Any) -> WithTools:
    return WithTools(make("tldr-v0"), [calculator(), notes()], **options)


class Client:
    """Sends messages to an application in this process, and keeps the name of its session."""

    def __init__(self, env: TextDecPOMDP, token: str | None = None, **limits: Any) -> None:
        self.app = app.App(sessions.Sessions(env, sessions.Limits(**limits)), token, threads=1)
        self.headers = {"host": "localhost"}

    def send(self, body: bytes, query: str = "", method: str = "POST", path: str = "/mcp") -> tuple[int, Any]:
        pairs = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        scope = {"type": "http", "method": method, "path": path, "headers": pairs, "query_string": query.encode()}
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        start, end = sent
        session = dict(start["headers"]).get(b"mcp-session-id")
        if session:
            self.headers["mcp-session-id"] = session.decode()
        return start["status"], json.loads(end["body"]) if end["body"] else None

    def ask(self, method: str, params: Any = None, query: str = "") -> Any:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, **({} if params is None else {"params": params})}
        status, reply = self.send(json.dumps(message).encode(), query)
        assert (status, reply["jsonrpc"], reply["id"]) == (200, "2.0", 7)
        return reply.get("result", reply.get("error"))

    def call(self, name: str, query: str = "", /, **arguments: Any) -> tuple[str, bool]:
        result = self.ask("tools/call", {"name": name, "arguments": arguments}, query)
        return result["content"][0]["text"], result["isError"]


def converse(to: app.App, session: str, message: Any) -> Any:
    """The answer to a message over a WebSocket that shares a session."""
    waiting = [{"type": "websocket.connect"}, {"type": "websocket.receive", "text": json.dumps(message)}]
    sent: list[Any] = []

    async def receive() -> Any:
        return waiting.pop(0) if waiting else {"type": "websocket.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/ws", "query_string": f"session_id={session}".encode()}
    asyncio.run(to({**scope, "headers": [(b"host", b"localhost")]}, receive, send))
    return json.loads(sent[1]["text"])


def test_a_client_begins_an_episode_and_calls_the_tools_of_its_agent() -> None:
    client, env = Client(with_tools(users={"notes": ["summary"]})), with_tools()
    observations, _ = env.reset(options={"index": 1})
    began = client.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, "agent=summary&index=1")
    assert (began["protocolVersion"], began["serverInfo"]["name"]) == ("2025-06-18", "tldr-v0/tools")
    assert began["instructions"].split("\n\nYou may call")[0] == observations["agent_0"].split("\n\nYou may call")[0]
    assert client.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}') == (202, None)
    listed = client.ask("tools/list")["tools"]
    assert [tool["name"] for tool in listed] == ["calculate", "note", "read_notes", "forget"]
    assert listed[0]["inputSchema"]["required"] == ["expression"]
    assert [tool["name"] for tool in client.ask("tools/list", query="agent=agent_1")["tools"]] == ["calculate"]
    assert client.call("calculate", expression="6 * 7") == ("42", False)
    client.call("note", text="a </tool_call> fern")
    assert client.call("read_notes") == ("1. a </tool_call> fern", False)
    assert client.call("calculate", expresion="1") == (
        "unknown argument 'expresion' of calculate; it takes expression; did you mean expression?",
        True,
    )


def test_sessions_share_nothing_and_end() -> None:
    client = Client(with_tools(), sessions=2)
    client.ask("initialize")
    client.call("note", text="mine")
    first = client.headers.pop("mcp-session-id")
    client.ask("initialize")
    assert client.call("read_notes")[0] == "There are no notes."
    assert client.send(b"", method="DELETE") == (200, None)
    status, gone = client.send(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_notes"}}')
    assert (status, gone["error"]["code"]) == (404, -32000)
    client.headers["mcp-session-id"] = first
    assert client.call("read_notes")[0] == "1. mine"


def test_a_program_and_agents_share_an_episode() -> None:
    env = with_tools(limits={"note": Limits(calls=2, price=0.25)})
    client = Client(env)
    name = client.ask("openenv/session/create")["session_id"]
    client.ask("initialize", query=f"session_id={name}&agent=elaboration")
    for text in "abc":
        client.call("note", f"session_id={name}&agent=elaboration", text=text)
    assert client.call("read_notes", f"session_id={name}&agent=elaboration")[0] == "1. a\n2. b"
    assert client.call("read_notes", f"session_id={name}&agent=summary")[0] == "There are no notes."
    client.send(b"", f"session_id={name}", "DELETE")  # an agent that goes, and not the episode
    step = {"type": "step", "data": {"texts": {"agent_0": "A fern.", "agent_1": "calculate('1')"}}}
    data = converse(client.app, name, step)["data"]
    assert data["reward"] == -0.5
    outputs = [details["output"] for kind, _, details in data["observation"]["events"] if kind == "result"]
    assert outputs[:2] + outputs[-1:] == ["kept as note 1", "kept as note 2", "1"]
    assert client.call("read_notes", f"session_id={name}&agent=summary") == (
        "agent_0 cannot call now; agent_1 has to write",
        True,
    )
    client.ask("openenv/session/close", {"session_id": name})
    assert len(client.app._sessions) == 0  # pyright: ignore[reportPrivateUsage]


def test_in_another_environment_a_call_is_the_text_of_a_turn() -> None:
    client, env, subtask = Client(make("research-v0")), make("research-v0"), "Who taught Greta Stakel?"
    client.ask("initialize", query="index=1")
    env.reset(options={"index": 1})
    assert client.call("ask", to="reader", subtask=subtask) == ("", False)
    assert client.call("ask", to="reader", subtask="Who?")[0] == "agent_0 cannot call now; agent_1 has to write"
    env.step({"agent_0": f'ask("reader", "{subtask}")'})
    found, *_ = env.step({"agent_0": "", "agent_1": f'search("{subtask}")'})
    assert client.call("search", "agent=agent_1", query=subtask) == (found["agent_1"], False)


@pytest.mark.parametrize(
    ("body", "code", "named"),
    [
        (b"no JSON", -32700, "no JSON object"),
        (b"", -32700, "no JSON object"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": ' + b"[" * 100_000, -32700, "nested too deeply"),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, "one request at a time"),
        (b"{}", -32600, "jsonrpc is None"),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600, "'1.0'"),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600, "no method"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600, "method is 5"),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, "id is None"),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, "id is 1.5"),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, "id is True"),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}', -32600, r"id is \[1\]"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', -32602, r"params is \[1\]"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/burn"}', -32601, "tools/burn"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}', -32602, "no tool 'rm'"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": {}}}', -32602, "no tool {}"),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "note", "arguments": [1]}}',
            -32602,
            r"note are \[1\]",
        ),
    ],
)
def test_a_wrong_message_is_an_error_of_json_rpc(body: bytes, code: int, named: str) -> None:
    client = Client(with_tools())
    client.ask("initialize")
    status, reply = client.send(body)
    assert (status, reply["error"]["code"]) == (200, code)
    assert re.search(named, reply["error"]["message"])
    assert client.call("calculate", expression="1") == ("1", False)


CALL = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_notes"}}'
BEGIN = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}'


@pytest.mark.parametrize(
    ("body", "query", "headers", "status", "named"),
    [
        (CALL, "", {}, 400, "send initialize first"),
        (CALL, "", {"mcp-session-id": "guessed"}, 404, "does not know this session"),
        (CALL, "", {"mcp-protocol-version": "1900-01-01"}, 400, "version"),
        (BEGIN, "agent=sumary", {}, 400, "sumary"),
        (BEGIN, "sed=1", {}, 400, "sed"),
        (BEGIN, "seed=x", {}, 400, "seed is 'x'"),
        (BEGIN, "task_id=../../etc/passwd", {}, 404, "no task"),
        (BEGIN, "", {"authorization": "Bearer wrong"}, 401, "token"),
        (BEGIN, "", {"origin": "http://localhost"}, 403, "web pages"),
        (b"x" * 10_000_000, "", {}, 413, "message is longer than 1048576 bytes"),
    ],
)
def test_what_is_refused_elsewhere_is_refused_here(
    body: bytes, query: str, headers: dict[str, str], status: int, named: str
) -> None:
    client = Client(with_tools(), token="secret")
    client.headers.update({"authorization": "Bearer secret", **headers})
    answered, reply = client.send(body, query)
    assert (answered, reply["jsonrpc"]) == (status, "2.0")
    assert named in reply["error"]["message"]
    assert len(client.app._sessions) == 0  # pyright: ignore[reportPrivateUsage]


def test_a_conversation_in_a_session_that_is_not_there_is_told_so() -> None:
    assert converse(Client(with_tools()).app, "guessed", {})["data"]["code"] == "SESSION_ERROR"


def test_a_session_too_many_is_an_error_and_there_are_no_streams() -> None:
    client = Client(with_tools(), sessions=1)
    client.ask("initialize")
    status, reply = client.send(BEGIN)
    assert (status, "--sessions" in reply["error"]["message"]) == (503, True)
    assert client.send(b"", method="GET")[0] == 405


def half() -> str:
    """Answer with a half of a character."""
    return "a\ud800b"


def test_the_client_of_mcp_calls_tools(serving: Callable[..., str]) -> None:
    mcp = pytest.importorskip("mcp.client.client", reason="mcp 2 is not installed: pip install -e '.[mcp]'")
    url = serving(WithTools(make("tldr-v0"), [notes(), kit("halves", half)]))

    async def played() -> list[Any]:
        async with mcp.Client(f"{url}/mcp?agent=summary") as summariser, mcp.Client(f"{url}/mcp") as other:
            listed = await summariser.list_tools()
            results = [
                await summariser.call_tool("note", {"text": "mine"}),
                await summariser.call_tool("read_notes", {}),
                await other.call_tool("read_notes", {}),
                await summariser.call_tool("half", {}),
                await summariser.call_tool("forget", {"number": 5}),
            ]
            with pytest.raises(mcp.MCPError, match="no tool 'rm'"):
                await summariser.call_tool("rm", {})
            assert summariser.instructions and "tools" in summariser.instructions
            return [[tool.name for tool in listed.tools], *((r.content[0].text, r.is_error) for r in results)]

    assert asyncio.run(played()) == [
        ["note", "read_notes", "forget", "half"],
        ("kept as note 1", False),
        ("1. mine", False),
        ("There are no notes.", False),
        ("a\ufffdb", False),
        ("forget: there is no note 5; there are 1", True),
    ]
