"""Tools of MCP servers, of real ones that the tests start (`nox -s mcp`)."""

from __future__ import annotations

import gzip
import itertools
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_servers import FLOOD, TOOL, Odd, served

pytest.importorskip("mcp.client.client", reason="mcp 2 is not installed: pip install -e '.[mcp]'")

from llm_dec_pomdp.envs import make
from llm_dec_pomdp.envs.checks.tools import tools_check
from llm_dec_pomdp.envs.tools import Limits as ToolLimits
from llm_dec_pomdp.envs.tools import Toolbox, ToolState
from llm_dec_pomdp.envs.wrappers import WithTools
from llm_dec_pomdp.integrations import mcp as adapter
from llm_dec_pomdp.integrations.mcp import tools_of
from llm_dec_pomdp.serving.sessions import Limits, RefusedError, Sessions

SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer

server, kept = MCPServer("shop", log_level="CRITICAL"), []

@server.tool()
def price(ware: str, number: int = 1) -> str:
    """Say what wares cost.

    Args:
        ware: Its name.
    """
    if ware != "fern":
        raise ValueError(f"no {ware} here")
    return f"{3 * number} coins"

@server.tool()
def keep(ware: str) -> str:
    """Keep a ware."""
    kept.append(ware)
    return ", ".join(kept)

if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run()
'''


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("server") / "shop.py"
    path.write_text(SERVER, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def address(program: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, program, str(port)], stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield f"http://127.0.0.1:{port}/mcp"
    process.terminate()
    process.wait()


PATIENT = ToolLimits(seconds=600)  # a server starts slowly on a busy machine


def test_agents_call_the_tools_of_a_server(address: str) -> None:
    env = WithTools(make("tldr-v0"), [tools_of(address, stateless=True, only=["price"])], limits={"price": PATIENT})
    observations, _ = env.reset(seed=0)
    assert "- price(ware: string, number?: integer): Say what wares cost." in observations["agent_0"]
    observations, *_ = env.step({"agent_0": 'price("fern", number=2)', "agent_1": 'price("moss")'})
    assert observations == {"agent_0": "6 coins", "agent_1": "price: Error executing tool price"}
    observations, *_ = env.fork().step({"agent_0": 'price("fern", nmber=2)', "agent_1": "Ferns."})
    assert "('nmber' was unexpected); it takes ware, number" in observations["agent_0"]
    twin = pickle.loads(pickle.dumps(env))
    assert twin.step({"agent_0": 'price("fern")', "agent_1": ""})[0]["agent_0"] == "3 coins"


@pytest.mark.slow
def test_the_law_of_tools_holds_of_a_stateless_server(address: str) -> None:
    tools_check(
        WithTools(make("tldr-v0"), [tools_of(address, stateless=True, only=["price"])], limits={"price": PATIENT}),
        rows=1,
    )


@pytest.mark.slow
def test_a_server_with_a_state_is_not_forked(program: str) -> None:
    env = WithTools(make("tldr-v0"), [tools_of([sys.executable, program])], limits={"keep": PATIENT})
    env.reset(seed=0)
    other = env.fork()  # nothing was called so far: each begins a session
    for playing, ware in ((env, "fern"), (other, "moss")):
        assert playing.step({"agent_0": f'keep("{ware}")', "agent_1": ""})[0]["agent_0"] == ware
    for copied in (env.fork, env.snapshot):
        with pytest.raises(ValueError, match=r"'mcp'.*stateless=True"):
            copied()
    assert env.step({"agent_0": 'keep("oak")', "agent_1": ""})[0]["agent_0"] == "fern, oak"
    sessions = Sessions(env, Limits())
    env.reset(seed=0)
    session = sessions.join()
    playing = session.copy(0)
    playing.reset(seed=0)
    playing.step({"agent_0": 'keep("elm")', "agent_1": ""})
    with pytest.raises(RefusedError, match="stateless"):
        session.copy(sessions.keep(session, playing))


def test_what_cannot_be_used_is_named(address: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=r"127.0.0.1:9/mcp"):
        tools_of("http://127.0.0.1:9/mcp")
    with pytest.raises(ConnectionError, match=r"no_such_program"):
        tools_of(["no_such_program"])
    with pytest.raises(ValueError, match="'prise'; did you mean price"):
        tools_of(address, only=["prise"])
    odd = tmp_path / "odd.py"
    odd.write_text(SERVER.replace("server.tool()\ndef price", 'server.tool(name="what price")\ndef price'), "utf-8")
    with pytest.raises(ValueError, match=r"odd.py: 'what price' cannot be the name of a tool.*only="):
        tools_of([sys.executable, str(odd)])


# --- servers that do what none should ---------------------------------------------------------------------------------


def answer_of(server: Any, **options: Any) -> str:
    """The answer to a call of the tool `price`."""
    box = Toolbox([tools_of(server, stateless=True, **options)], limits={"price": PATIENT})
    _, [answered] = box.answer(ToolState(), "agent_0", box.calls("agent_0", 'price("fern")'))
    return answered.answer


def like(**schema: Any) -> dict[str, Any]:
    return {**TOOL, "inputSchema": {"type": "object", **schema}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("odd", "named"),
    [
        (Odd(pages=True), "more than 100 pages"),
        (Odd([{**TOOL, "name": f"t{number}"} for number in range(501)]), "more than 500 tools"),
        (Odd([{**TOOL, "description": "x" * 300_000}], pages=True), "bytes"),
        (Odd([TOOL, TOOL]), "'price'"),
        (Odd([{**TOOL, "name": "price\x1b[31m"}]), r"'price\\x1b\[31m'"),
        (Odd([like(properties={"a\u202eb": {}})]), r"'a\\u202eb'"),
        (Odd([like(properties={"a": {"$ref": "file:///etc/hostname"}})]), "'file:///etc/hostname'"),
        (Odd([like(properties={"a": {"pattern": "(?=x)"}})]), r"'\(\?=x\)'"),
    ],
    ids="pages tools bytes twice name argument file pattern".split(),
)
def test_a_list_that_cannot_be_used_is_refused(odd: Odd, named: str) -> None:
    with served(odd) as address, pytest.raises(ValueError, match=named):
        tools_of(address, stateless=True)


@pytest.mark.slow
def test_what_is_no_list_of_tools_is_named() -> None:
    for odd in (Odd([{**TOOL, "inputSchema": [1]}]), Odd([like(properties=5)]), Odd([5]), Odd([{}])):
        with served(odd) as address, pytest.raises(ConnectionError, match="gives no list of tools"):
            tools_of(address, stateless=True)


def test_a_schema_may_be_odd() -> None:
    schema = {
        "properties": {"item": True, "no": False, "n": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "integer"}},
    }
    with served(Odd([like(**schema)])) as address:
        env = WithTools(make("tldr-v0"), [tools_of(address, stateless=True)], limits={"price": PATIENT})
        observations, _ = env.reset(seed=0)
        assert "- price(item?: any, no?: any, n?: any): Say a price." in observations["agent_0"]
        observations, *_ = env.step({"agent_0": "price(item=1, n=2)", "agent_1": 'price(n="x")'})
    assert observations["agent_0"] == "3 coins"
    assert observations["agent_1"].startswith("the argument 'n' of price is \"x\"")


def endless(part: bytes) -> Iterator[bytes]:
    return itertools.repeat(part)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_is_read_up_to_a_limit(status: int, kind: str) -> None:
    odd = Odd(raw={"tools/call": (status, {"content-type": kind}, endless(b"x" * 65536))})
    with served(odd) as address:
        assert "price" in answer_of(address)
    assert odd.sent < 1 << 26  # what buffers hold, too


def test_an_answer_of_a_program_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "flood.py").write_text(FLOOD, encoding="utf-8")
    assert f"longer than {adapter.MOST_BYTES} bytes" in answer_of([sys.executable, str(tmp_path / "flood.py")])


def test_an_answer_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> Iterator[bytes]:
        while True:
            time.sleep(0.05)
            yield b" "

    with served(Odd(raw={"tools/call": (200, {}, slow())})) as address:
        box = Toolbox([tools_of(address, stateless=True)], limits={"price": PATIENT})
        monkeypatch.setattr(adapter, "SECONDS", 0.5)
        _, [answered] = box.answer(ToolState(), "agent_0", box.calls("agent_0", "price()"))
    assert not answered.valid


def test_an_answer_is_not_unpacked() -> None:
    packed = gzip.compress(bytes(1 << 22))
    with served(Odd(raw={"tools/call": (200, {"content-encoding": "gzip"}, iter([packed]))})) as address:
        assert "compressed" in answer_of(address)


@pytest.mark.parametrize("method", ["initialize", "tools/call"])
def test_redirects_are_not_followed(method: str) -> None:
    """Not even to the same host and port: the headers were given for one address."""
    odd = Odd(raw={method: (307, {"location": "/elsewhere"}, iter([]))})
    with served(odd) as address:
        try:
            said = answer_of(address, headers={"authorization": "Bearer a-secret-key"})
        except ConnectionError as error:
            said = str(error)
    assert "give the final address" in said
    assert {path for _, path, _ in odd.paths} == {"/mcp"}


def test_the_schema_of_results_is_the_servers_own_business() -> None:
    outside = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}, "b": {"$ref": "file:///etc/hostname"}}}
    result = {"content": [{"type": "text", "text": "3 coins"}], "structuredContent": {"a": "a" * 40 + "b", "b": 1}}
    with served(Odd([{**TOOL, "outputSchema": outside}], result)) as address:
        assert answer_of(address) == "3 coins"


def test_no_stream_of_notifications_is_opened() -> None:
    odd = Odd()
    with served(odd) as address:
        assert answer_of(address) == "3 coins"
    assert {method for method, _, _ in odd.paths} == {"POST"}
