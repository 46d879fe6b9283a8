"""OpenEnv's own clients, and its own check of a server; `nox -s openenv` installs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("openenv", reason="openenv is not installed; nox -s openenv")
pytest.importorskip("starlette", reason="the extra serve is not installed")

from openenv.core import GenericEnvClient

from llm_dec_pomdp.envs import make
from llm_dec_pomdp.integrations.openenv import TeamAction, TeamClient
from llm_dec_pomdp.serving.server import Server


@pytest.fixture(params=[("keys-v0", None), ("tldr-v0", "s3cret")], ids=["hierarchy", "token"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Any, str]]:
    """An environment and the address of its server, with the token where there is one."""
    env_id, token = request.param
    server = Server(make(env_id), port=0, token=token)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield make(env_id), server.url.replace("//", f"//me:{token}@") if token else server.url
    server.stop()
    thread.join(20)


def test_an_episode_of_openenvs_client_is_the_one_of_the_environment(served: tuple[Any, str]) -> None:
    local, url = served
    say = local.script("optimal") if local.facts.hierarchical else lambda agent, history: f"{agent} says something"
    with TeamClient(url).sync() as env:
        for seed in (0, 1):
            observations, infos = local.reset(seed=seed)
            there = env.reset(seed=seed)
            assert (there.observation.texts, there.observation.infos, there.reward) == (observations, infos, None)
            while not there.done:
                assert there.observation.asked == [agent for agent in local.agents if local.asked(agent)]
                texts = {agent: say(agent, local.history(agent)) for agent in local.agents}
                observations, rewards, *_, infos = local.step(texts)
                there = env.step(TeamAction(texts=texts))
                assert (there.observation.texts, there.observation.rewards) == (observations, rewards)
                assert there.observation.infos == infos
                assert there.reward == local.latest.transition.reward
            assert json.loads(env.state().state) == json.loads(local.state())
            assert local.agents == []


def test_clients_have_sessions_of_their_own_and_errors_are_sentences(served: tuple[Any, str]) -> None:
    local, url = served
    with GenericEnvClient(url).sync() as client, GenericEnvClient(url).sync() as other:
        assert client.reset(index=0).observation["texts"] == local.reset(options={"index": 0})[0]
        other.reset(index=1)
        with pytest.raises(RuntimeError, match=r"no task '\.\./\.\./etc/passwd'"):
            client.reset(task_id="../../etc/passwd")
        client.step({"texts": dict.fromkeys(local.agents, "a text")})
        assert other.state()["step_count"] == 0


def test_a_wrong_token_is_refused() -> None:
    server = Server(make("telegrams-v0"), port=0, token="s3cret")
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    with pytest.raises(ConnectionError, match="401"), TeamClient(server.url).sync() as env:
        env.reset()
    server.stop()
    thread.join(20)


@pytest.mark.slow
def test_openenvs_own_check_passes() -> None:
    """The server runs in `LLM_DEC_POMDP_SERVER`, a Python with the extra mcp, since OpenEnv pins an older mcp."""
    server = [os.environ.get("LLM_DEC_POMDP_SERVER", sys.executable), "-m", "llm_dec_pomdp", "serve", "telegrams-v0"]
    with subprocess.Popen([*server, "--port", "0"], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            url = running.stdout.readline().strip()
            command = [sys.executable, "-m", "openenv.cli", "validate", "--url", url]
            done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        finally:
            running.terminate()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verdict: PASS" in done.stdout
