"""Whole models that are handed to a server: nothing is learnt from texts of other weights than theirs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from fake_vllm import AGENTS, FakeVLLM, only_policy, team_of
from models import match
from servers import Reply, Server

from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.engines import EngineError
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.rollout import Trajectories

SHORT = Sampling(max_new_tokens=6)


def texts(team: Team, seed: int = 1) -> list[str]:
    [group] = Trajectories().play(match(), team, ["t0"], [seed], SHORT, 2)
    return [c.text for episode in group.episodes for c in episode.turns[0].actions.values()]


def changed(team: Team, by: float = 0.5) -> list[str]:
    """Its texts after a change of all weights, which the own model draws here."""
    here = load_team(AGENTS, sharing="shared")
    for each in (team, here):
        policy = only_policy(each)
        policy.load_state_dict({name: tensor * (1 + by) for name, tensor in policy.state_dict().items()})
    return texts(here)


def test_a_model_takes_the_place_of_the_one_before_and_leaves_no_file(
    server: Server, vllm: FakeVLLM, tmp_path: Path
) -> None:
    def loads() -> int:
        return [order for order, _ in vllm.orders].count("collective_rpc")

    team = team_of(server, tmp_path, "shared")
    first = texts(team)
    assert texts(team) == first
    assert loads() == 2  # others, by which it is tried out, and its own
    assert first != (wanted := changed(team))
    assert texts(team) == wanted
    assert loads() == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["completions", "collective_rpc", "weight_info", "reset_prefix_cache"])
def test_a_server_that_starts_anew_at_any_point_gets_the_weights_again(
    server: Server, vllm: FakeVLLM, tmp_path: Path, asked: str
) -> None:
    """It loses what it is asked when it ends; what it drew before is drawn again, as some may have been drawn after."""
    team = team_of(server, tmp_path, "shared")
    texts(team)
    wanted, left = changed(team), [1]

    def reply(body: dict[str, Any], number: int) -> Reply:
        if server.paths[number].endswith(asked) and left:
            left.pop()
            vllm.start_anew()
            return 503, b"starting"
        return vllm.answer(server.paths[number], body)

    server.answer = reply
    assert texts(team) == wanted
    assert left == []


def test_a_server_that_keeps_a_part_of_its_own_weights_is_found_out_before_any_text(
    server: Server, vllm: FakeVLLM, tmp_path: Path
) -> None:
    vllm.keeps = "embed_tokens"
    with pytest.raises(EngineError, match=r"[0-9.]+ nats"):
        texts(team_of(server, tmp_path, "shared"))


@pytest.mark.slow
def test_a_server_with_weights_of_another_run_ends_this_one(server: Server, vllm: FakeVLLM, tmp_path: Path) -> None:
    first, second = (team_of(server, tmp_path, "shared") for _ in range(2))
    texts(first)
    texts(second)
    frozen = team_of(server, tmp_path, "shared", train=False)  # is to be drawn with what the server was started with
    for team in (first, frozen, team_of(server, tmp_path)):
        with pytest.raises(EngineError, match="weights of another run"):
            texts(team)
    vllm.start_anew()
    assert texts(frozen) == texts(load_team(AGENTS, sharing="shared"))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("order", "answer", "named"),
    [
        ("weight_info", (200, b'{"weight_ver'), "'weight_version'"),
        ("weight_info", (200, b"[]"), "'weight_version'"),
        ("collective_rpc", (500, b"no such file"), "500.*no such file"),
        ("collective_rpc", (404, b"Not Found"), "404.*--all-weights"),
        ("reset_prefix_cache", (200, b'{"success": false}'), "cache"),
    ],
)
def test_what_is_no_answer_to_an_order_stops_the_run(
    server: Server, vllm: FakeVLLM, tmp_path: Path, order: str, answer: Reply, named: str
) -> None:
    team = team_of(server, tmp_path, "shared")  # which asks for `weight_info` alone
    server.answer = lambda body, n: answer if server.paths[n].endswith(order) else vllm.answer(server.paths[n], body)
    with pytest.raises(EngineError, match=named):
        texts(team)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_server_that_takes_too_long_is_given_the_weights_again(
    server: Server, vllm: FakeVLLM, tmp_path: Path
) -> None:
    loads, again = 0, threading.Event()

    def slow_once(body: dict[str, Any], number: int) -> Reply:
        nonlocal loads
        if server.paths[number] == "/collective_rpc":
            loads += 1
            again.wait(60) if loads == 1 else again.set()
        return vllm.answer(server.paths[number], body)

    team = team_of(server, tmp_path, "shared", timeout=2.0)
    server.answer = slow_once
    assert texts(team) == texts(load_team(AGENTS, sharing="shared"))
    assert again.is_set()


@pytest.mark.parametrize(
    ("sharing", "status", "message"),
    [
        ("shared", 404, "404.*--all-weights"),
        ("separate", 200, "one model per role"),
        ("shared", 503, None),  # it is being started
    ],
)
def test_a_server_that_takes_no_whole_models_is_told_before_anything_is_loaded(
    server: Server, tmp_path: Path, sharing: str, status: int, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LoadedError(Exception):
        pass

    def load_model(*given: Any, **options: Any) -> None:
        raise LoadedError

    monkeypatch.setattr("llm_dec_pomdp.agents.io.models.load_model", load_model)
    server.answer = lambda body, number: (status, b'{"detail": "Not Found"}')
    with pytest.raises(ConfigError, match=message) if message else pytest.raises(LoadedError):
        team_of(server, tmp_path, sharing)
