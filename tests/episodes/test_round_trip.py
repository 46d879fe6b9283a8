"""Every environment under every protocol: an episode becomes a trace, which is valid, plays again, and comes back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from every import TASKS, seen
from playing import ROOT, played, speaker

import llm_dec_pomdp
from llm_dec_pomdp.agents import RandomText, Request, Sampling, Scripted
from llm_dec_pomdp.envs.facts import Facts
from llm_dec_pomdp.envs.task import Task, Transition
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.wrappers import PROTOCOLS
from llm_dec_pomdp.episodes import (
    Header,
    Trace,
    TraceError,
    TraceWriter,
    from_episode,
    read_whole,
    stats,
    to_groups,
    validate,
    write,
)
from llm_dec_pomdp.episodes.record import ENVIRONMENT
from llm_dec_pomdp.rollout import Trajectories, Tree, replay
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Completion, Score, TaskItem, Usage

HIERARCHIES = [env_id for env_id in llm_dec_pomdp.registry if seen(env_id).facts.hierarchical]
# Every environment in its own way and every protocol once are quick.
EVERY_WAY = [
    pytest.param(env_id, protocol, marks=() if protocol == "parallel" or env_id == "tldr-v0" else pytest.mark.slow)
    for env_id in TASKS
    for protocol in sorted(PROTOCOLS)
    if env_id not in HIERARCHIES or protocol in ("parallel", "centralized")
]


@pytest.mark.every(2)
@pytest.mark.parametrize(("env_id", "protocol"), EVERY_WAY)
def test_an_episode_comes_back_from_its_trace(env_id: str, protocol: str) -> None:
    group, trace = played(env_id, protocol)
    assert validate(trace, "schema") == []
    assert validate(trace, "replayable") == []
    assert replay(trace) == ""
    assert to_groups([trace]) == [group]


@pytest.mark.parametrize(
    ("env_id", "text", "part"),
    [("calls-v0", "mail: read the mail of Eva", "agent_3"), ("research-v0", 'ask("reader", "Who?")', "agent_1")],
)
def test_events_of_a_hierarchy_may_name_the_agents_that_a_single_agent_acts_as(
    env_id: str, text: str, part: str
) -> None:
    _, trace = played(env_id, "centralized", policy=Scripted(lambda agent, history: text))
    assert any(part in (event["agent"], event.get("to")) for event in trace["events"])
    assert validate(trace) == []
    assert replay(trace) == ""


@pytest.mark.parametrize("usage", [Usage(7, 5, 2), Usage(7, 5), Usage()])
def test_token_counts_of_a_server_come_back(usage: Usage) -> None:
    class Counted(RandomText):
        def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
            return [[replace(c, usage=usage) for c in found] for found in super().generate(requests, sampling)]

    group, trace = played("tldr-v0", policy=Counted())
    assert validate(trace, "schema") + validate(trace, "replayable") == []
    assert replay(trace) == ""
    assert to_groups([trace]) == [group]  # needs no token ids
    known = not math.isnan(usage.sampled)
    assert trace["costs"]["tokens"] == (10 if known else 0)
    assert stats(trace)["tokens"] == pytest.approx(10 if known else math.nan, nan_ok=True)


@pytest.mark.parametrize(("env_id", "turns"), [("humaneval-v0", 3), ("tldr-v0", 2), ("dectiger-v0", 4)])
def test_episodes_of_several_turns_come_back(env_id: str, turns: int) -> None:
    group, trace = played(env_id, "discussion", max_turns=turns)
    assert len(group.episodes[0].turns) == 2 * turns
    assert replay(trace) == ""
    assert to_groups([trace]) == [group]


@pytest.mark.parametrize("texts", ["inline", "hashed", "none"])
def test_an_episode_is_written_as_its_trace_would_be(texts: str, tmp_path: Path) -> None:
    env = llm_dec_pomdp.make("keys-v0")
    [group] = Trajectories("own").play(env, speaker(env), [env.items[0].id], [3], Sampling())
    episode, header, item = group.episodes[0], Header.of(env), env.items[0]
    for token_ids in (True, False):
        trace = from_episode(episode, header, item, token_ids=True)
        write([trace], tmp_path / f"a{token_ids}", texts, token_ids=token_ids)  # type: ignore[arg-type]
        with TraceWriter(tmp_path / f"b{token_ids}", texts, token_ids=token_ids) as writer:  # type: ignore[arg-type]
            writer.write_episode(episode, header, item)
        assert (tmp_path / f"a{token_ids}").read_bytes() == (tmp_path / f"b{token_ids}").read_bytes()


def test_a_trace_whose_environment_asks_a_model_is_not_played_by_itself() -> None:
    _, trace = played("tldr-v0")
    trace["events"][0]["header"]["environment"]["options"] = {"expert": {"model": "http://localhost:1/v1#m"}}
    with pytest.raises(TraceError, match="http://localhost:1/v1#m"):
        replay(trace)


def test_without_texts_a_trace_is_valid_and_says_that_it_cannot_be_played(tmp_path: Path) -> None:
    [trace] = _written([played("keys-v0")[1]], tmp_path, "none")
    assert validate(trace) == []
    with pytest.raises(TraceError, match=r"'e\d', field content"):
        replay(trace)
    with pytest.raises(TraceError, match="field token_ids"):
        to_groups(_written([played("keys-v0")[1]], tmp_path / "x", "inline"))


def _written(traces: list[Trace], folder: Path, texts: str) -> list[Trace]:
    folder.mkdir(exist_ok=True)
    write(traces, folder / "t.jsonl", texts)  # type: ignore[arg-type]
    return list(read_whole(folder / "t.jsonl"))


@pytest.mark.parametrize("rollout", [Trajectories(), Tree()], ids=repr)
def test_episodes_of_shared_chance_play_again_from_the_seed_of_their_task(rollout: Trajectories | Tree) -> None:
    env = llm_dec_pomdp.make("dectiger-v0", max_turns=2)
    [group] = rollout.play(env, speaker(env), [env.items[0].id], [5], Sampling(), 2)
    header = Header.of(env, options={"max_turns": 2})
    for episode in group.episodes:
        assert replay(from_episode(episode, header, env.items[0], seed=derive(5, "env"))) == ""


class Whisper(Task[int]):
    """The first agent is told a word at the beginning and is asked for it a turn later."""

    declared = Facts(
        name="whisper-v0",
        roles=("hears", "speaks"),
        components=("right",),
        score_range=(0.0, 1.0),
        turn_range=(0.0, 1.0),
    )
    source = TaskSource("whisper", "acme/whisper", {"train": "train"})

    def initial_state(self, item: TaskItem, seed: int) -> int:
        return 0

    def observations(self, state: int) -> dict[str, str]:
        return {"agent_0": "the word is plum", "agent_1": "talk"} if state == 0 else {"agent_0": "the word?"}

    def asks(self, state: int) -> list[str]:
        return ["agent_0"] if state else ["agent_1"]

    def transition(self, state: int, actions: Mapping[str, str], seed: int) -> Transition[int]:
        right = float(actions.get("agent_0") == "plum")
        return Transition(state + 1, right, Score(right, {"right": right}) if state else None, terminated=state > 0)


def test_what_agents_are_told_without_being_asked_is_kept() -> None:
    env = Whisper([TaskItem("w", "?")], max_turns=2)
    [group] = Trajectories().play(env, Scripted(lambda agent, history: "plum"), ["w"], [0], Sampling())
    assert [dict(turn.unasked_observations) for turn in group.episodes[0].turns] == [
        {"agent_0": "the word is plum"},
        {},
    ]
    trace = from_episode(group.episodes[0], Header.of(env), env.items[0])
    unasked = [
        (event["to"], event["turn"]) for event in trace["events"] if event["agent"] == ENVIRONMENT and "to" in event
    ]
    assert unasked == [("agent_0", 0), ("agent_1", 0), ("agent_0", 1)]
    assert replay(trace, env) == ""
    assert to_groups([trace]) == [group]


def test_the_example_of_the_page_runs() -> None:
    code, _ = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "traces.md").read_text(encoding="utf-8"), re.DOTALL)
    exec(code, {})


# --- edges ------------------------------------------------------------------------------------------------------------


def readers(trace: Trace) -> dict[str, set[str]]:
    """By message of an agent: whose events its message edges lead to."""
    events = {event["id"]: event for event in trace["events"]}
    ends = {e["id"]: set[str]() for e in trace["events"] if e["type"] == "message" and e["agent"] != ENVIRONMENT}
    for edge in trace["edges"]:
        if edge["type"] == "message" and edge["src"] in ends:
            ends[edge["src"]].add(events[edge["dst"]]["agent"])
    return ends


def test_an_edge_leads_to_everybody_who_has_read_a_message_and_to_nobody_else() -> None:
    assert list(readers(played("telegrams-v0", "parallel")[1]).values()) == [set(), set(), set()]
    assert list(readers(played("telegrams-v0", "sequential")[1]).values()) == [
        {"agent_1", "agent_2"},
        {"agent_2"},
        set(),
    ]
    assert list(readers(played("telegrams-v0", "discussion")[1]).values()) == [
        {"agent_1", "agent_2"},
        {"agent_0", "agent_2"},
        {"agent_0", "agent_1"},
        *[set()] * 3,
    ]


def test_what_was_read_stands_in_what_was_told() -> None:
    _, trace = played("telegrams-v0", "discussion")
    events = {event["id"]: event for event in trace["events"]}
    readings = [event for event in trace["events"] if event.get("reads")]
    assert len(readings) == 3
    for event in readings:
        assert {events[name]["agent"] for name in event["reads"]} == {"agent_0", "agent_1", "agent_2"} - {event["to"]}
        assert all(events[name]["content"] in event["content"] for name in event["reads"])


def test_a_hierarchy_has_spawns_calls_and_returns_where_they_were_caused() -> None:
    _, trace = played("keys-v0")
    kinds = {event["id"]: f"{event['type']} {event['agent']}" for event in trace["events"]}
    caused = {(kinds[edge["src"]], kinds[edge["dst"]], edge["type"]) for edge in trace["edges"]}
    assert {
        ("message agent_0", "spawn agent_0", "causal"),
        ("spawn agent_0", "message agent_1", "spawn"),
        ("message agent_1", "tool_call agent_1", "tool_dependency"),
        ("tool_call agent_1", "tool_result agent_1", "return"),
        ("tool_result agent_1", "return agent_1", "causal"),
        ("return agent_1", "message agent_0", "return"),
        ("message agent_0", "orchestrator_decision agent_0", "causal"),
        ("message agent_0", "aggregate environment", "aggregate"),
    } <= caused
    assert ("return agent_1", "message agent_2", "return") not in caused
