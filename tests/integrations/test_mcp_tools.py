"""Tools of MCP servers, of real ones that the tests start (`nox -s mcp`)."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp.client.client", reason="mcp 2 is not installed: pip install -e '.[mcp]'")

from llm_dec_pomdp.envs import make
from llm_dec_pomdp.envs.check_tools import tools_check
from llm_dec_pomdp.envs.tools import Limits as ToolLimits
from llm_dec_pomdp.envs.wrappers import WithTools
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
    session = sessions.open()
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
    with pytest.raises(ValueError, match=r"odd.py: 'what price' is no name of a tool.*only="):
        tools_of([sys.executable, str(odd)])
