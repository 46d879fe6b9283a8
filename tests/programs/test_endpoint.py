"""Programs that call their roles over HTTP, and teams that are served to programs."""

from __future__ import annotations

import concurrent.futures
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_programs import ROWS, post, score

import llm_dec_pomdp
from llm_dec_pomdp import Sampling, from_program
from llm_dec_pomdp.agents import Scripted
from llm_dec_pomdp.programs import connect

pytest.importorskip("starlette")
from llm_dec_pomdp.programs.team import TeamBackend, team_server

USER = [{"role": "user", "content": "hello"}]


def env_of(solve: Any, **options: Any) -> Any:
    return from_program(solve, roles=["planner"], tasks=ROWS, split="all", score=lambda task, result: 1.0, **options)


def asked(body: Any, text: str = "hi", **options: Any) -> tuple[int, Any]:
    """Return what a program receives for a request that its role answers with a text."""
    received: list[tuple[int, Any]] = []

    def solve(task: Mapping[str, Any], roles: Any) -> str:
        received.append(post(roles["planner"], body, **options))
        return ""

    env = env_of(solve)
    env.reset(seed=0)
    while env.agents:
        env.step(dict.fromkeys(env.agents, text))
    return received[0]


REFUSED: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "JSON"),
    "deep JSON": (b"[" * 100_000, "JSON"),
    "no messages": ({}, "messages"),
    "an unknown role of a message": ({"messages": [{"role": "king", "content": "x"}]}, "'king'"),
    "no message of a user": ({"messages": [{"role": "system", "content": "x"}]}, "'user'"),
    "content of another type": ({"messages": [{"role": "user", "content": 3}]}, "content"),
    "a tool without a schema": ({"messages": USER, "tools": [{"function": {"name": "f"}}]}, "schema"),
    "what is not supported": ({"messages": USER, "logprobs": True}, "logprobs"),
    "too many samples": ({"messages": USER, "n": 1000}, "n is 1000"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_that_cannot_be_honoured_is_refused_with_a_sentence(case: str) -> None:
    body, named = REFUSED[case]
    status, error = asked(body)
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert named in error["message"]


def test_an_unknown_role_and_a_wrong_key_are_refused(served: Any) -> None:
    assert asked({"messages": USER}, name="painter")[0] == 404
    assert asked({"messages": USER}, key="guessed")[0] == 401
    assert post(served["planner"], {"messages": []})[0] == 400
    assert post(served["planner"], {"messages": USER}, key="wrong")[0] == 401
    assert post(served["planner"], {"messages": USER}, name="painter")[0] == 404


def test_a_client_of_an_episode_that_has_ended_receives_a_sentence() -> None:
    kept: list[Any] = []

    def solve(task: Mapping[str, Any], roles: Any) -> str:
        kept.append(roles["planner"])
        return roles["planner"].chat("x")

    env = env_of(solve)
    env.reset(seed=0)
    url = kept[0].base_url
    env.step({"agent_0": "hi"})
    assert url
    status, error = post(kept[0], {"messages": USER})
    assert (status, error["code"]) == (400, "episode_ended")


def test_samples_stop_strings_and_streams() -> None:
    status, body = asked({"messages": USER, "n": 2, "stop": "!", "temperature": 0.1}, "one! two")
    assert status == 200
    assert [choice["message"]["content"] for choice in body["choices"]] == ["one", "one"]
    _, events = asked({"messages": USER, "stream": True}, "one two")
    lines = [line.removeprefix("data: ") for line in events.splitlines() if line]
    assert lines[-1] == "[DONE]"
    texts = [json.loads(line)["choices"][0]["delta"].get("content", "") for line in lines[:-1]]
    assert "".join(texts) == "one two"


COMMAND = """
import json, os, sys, urllib.request
task = json.load(sys.stdin)
body = {"model": "planner", "messages": [{"role": "user", "content": task["prompt"]}]}
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, json.dumps(body).encode(), headers)
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
"""


def test_a_command_is_a_program_and_its_output_is_scored() -> None:
    env = from_program([sys.executable, "-c", COMMAND], roles=["planner"], tasks=ROWS, split="all", score=score)
    observations, _ = env.reset(seed=0, options={"task_id": "t0"})
    assert observations == {"agent_0": ROWS[0]["prompt"]}
    _, rewards, _, _, _ = env.step({"agent_0": "five different words are here"})
    assert rewards["agent_0"] == pytest.approx(5 / 60)


def test_a_command_that_fails_is_unscorable_with_its_errors() -> None:
    env = env_of([sys.executable, "-c", "raise SystemExit('broken')"])
    env.reset(seed=0)
    env.step({"agent_0": ""})
    assert "broken" in env.last_score.notes["program"]


def test_programs_of_different_episodes_do_not_see_each_other() -> None:
    def solve(task: Mapping[str, Any], roles: Any) -> str:
        status, body = post(roles["planner"], {"messages": [{"role": "user", "content": task["prompt"]}]})
        assert status == 200
        return body["choices"][0]["message"]["content"]

    def played(number: int) -> str:
        results: list[str] = []
        env = from_program(
            solve,
            roles=["planner"],
            tasks=ROWS,
            split="all",
            score=lambda task, result: float(results.append(result) is None),
        )
        env.reset(seed=0, options={"task_id": ROWS[number % 4]["id"]})
        assert env.history("agent_0")[0].text == ROWS[number % 4]["prompt"]
        env.step({"agent_0": f"text of {number}"})
        return results[0]

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert list(threads.map(played, range(24))) == [f"text of {number}" for number in range(24)]


# --- serve-team -------------------------------------------------------------------------------------------------------


def repeats(agent: str, history: Any) -> str:
    return f"{agent} has {len(history)}: {history[-1].text}"


@pytest.fixture
def served() -> Any:
    backend = TeamBackend(Scripted(repeats), {"planner": "agent_0", "writer": "agent_1"}, Sampling())
    server = team_server(backend, "key", port=0)
    server.start()
    return connect(f"{server.url}/v1", "key")


def test_a_served_team_answers_by_role_and_continues_conversations(served: Any) -> None:
    assert list(served) == ["planner", "writer"]
    first = served["planner"].chat("one")
    assert first == "agent_0 has 1: one"
    again = [{"role": "user", "content": "one"}, {"role": "assistant", "content": first}]
    assert served["planner"].chat([*again, {"role": "user", "content": "two"}]) == "agent_0 has 3: two"
    assert served["writer"].chat("one") == "agent_1 has 1: one"


@pytest.mark.slow
def test_a_program_plays_the_same_texts_with_a_served_team_as_in_an_episode() -> None:
    path = f"{Path(__file__).parents[2]}/examples/programs/painters.py:solve"
    env = llm_dec_pomdp.make(path, split="all")
    team = llm_dec_pomdp.load_team(env)
    llm_dec_pomdp.train(team, env, "magrpo", steps=60, seed=0)
    greedy = Sampling(temperature=0.01)
    server = team_server(TeamBackend(team, {"scout": "agent_0", "painter": "agent_1"}, greedy), "key", port=0)
    server.start()
    roles = connect(f"{server.url}/v1", "key")
    module = sys.modules[env._solve.__module__]  # pyright: ignore[reportPrivateUsage]
    means = sum(module.score(task, module.solve(task, roles)) for task in module.TASKS) / len(module.TASKS)
    measured = llm_dec_pomdp.evaluate(team, env, samples=1, sampling=greedy).return_percent.mean
    assert means == pytest.approx(measured / 100)
