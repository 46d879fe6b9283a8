"""Pairs from files, traces and runs: which they are, and that they are said again word for word."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from models import AGENTS, COLOURS, ITEMS, Colourful, separate_team

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.scripted import RandomText, Uniform
from llm_dec_pomdp.contrib.scouts.scouts import Scouts
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.episodes import Header, Trace, TraceWriter, from_episode
from llm_dec_pomdp.episodes.files import evaluation_file
from llm_dec_pomdp.rollout import Demonstrations, Preferences, Trajectories
from llm_dec_pomdp.types import Completion, Episode, Group, TaskItem, Turn

SAMPLING = Sampling(max_new_tokens=6)


def played(width: int = 3) -> list[Group]:
    env = Colourful(ITEMS)
    return Trajectories().play(env, separate_team(), ["t0", "t1"], [0, 1], SAMPLING, width)


def texts(group: Group) -> list[dict[str, str]]:
    return [{agent: c.text for agent, c in episode.turns[0].actions.items()} for episode in group.episodes]


def searched() -> tuple[Scouts, Group]:
    """Episodes of a game with chance, in which agents take turns."""
    env = Scouts()
    [group] = Trajectories(chance="own").play(env, Uniform(env.choices), ["scouts"], [1], SAMPLING, 8)
    return env, group


def recorded(kind: str, groups: list[Group], folder: Path, env: TextDecPOMDP | None = None) -> str:
    """The episodes as a run, or as traces, keeps them."""
    path = evaluation_file(folder / "cells" / "a", 3) if kind == "run" else folder / "traces.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    env = env or Colourful(ITEMS)
    header = Header.of(env, env.metadata["name"])
    with TraceWriter(path) as file:
        for group, item in zip(groups, env.items, strict=False):
            for episode in group.episodes:
                file.write_episode(episode, header, item)
    return str(folder if kind == "run" else path)


@pytest.mark.parametrize("kind", ["run", "traces"])
def test_the_best_and_the_worst_recorded_episode_of_a_task_are_said_again(kind: str, tmp_path: Path) -> None:
    groups = played()
    source = recorded(kind, groups, tmp_path)
    again = Preferences(source).play(Colourful(ITEMS), separate_team(5), ["t0", "t1"], [7, 8], SAMPLING)
    for old, new in zip(groups, again, strict=True):
        returns = [e.total for e in old.episodes]
        assert [e.total for e in new.episodes] == [max(returns), min(returns)]
        assert texts(new) == [texts(old)[returns.index(max(returns))], texts(old)[returns.index(min(returns))]]
    every = Preferences(source, "all", 0.0).pairs()
    wanted = sum(a.total > b.total for group in groups for a in group.episodes for b in group.episodes)
    assert sum(map(len, every.values())) == wanted
    demonstrated = Demonstrations(source).play(Colourful(ITEMS), separate_team(5), ["t0"], [3], SAMPLING, 2)
    assert all(text in texts(groups[0]) for text in texts(demonstrated[0]))


def pairs_file(folder: Path, *rows: Mapping[str, Any]) -> str:
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "pairs.jsonl")


def test_one_agent_that_writes_all_parts_says_those_of_all(tmp_path: Path) -> None:
    chosen = dict(zip(AGENTS, COLOURS, strict=False))
    source = pairs_file(tmp_path, {"task": "t0", "chosen": chosen, "rejected": {**chosen, "agent_1": "blue"}})
    env = with_protocol(Colourful(ITEMS), "centralized")
    [group] = Preferences(source).play(env, Team({"agent_0": RandomText()}), ["t0"], [0], SAMPLING)
    assert texts(group) == [{"agent_0": f"[left]\nred\n[right]\n{word}"} for word in ("green", "blue")]


@pytest.mark.parametrize("kind", ["run", "traces"])
def test_recorded_episodes_meet_the_chance_that_they_met(kind: str, tmp_path: Path) -> None:
    env, group = searched()
    source = recorded(kind, [group], tmp_path, env)
    [again] = Preferences(source).play(
        env, Team(dict.fromkeys(env.possible_agents, RandomText())), ["scouts"], [5], SAMPLING
    )
    totals = [e.total for e in group.episodes]
    assert [e.total for e in again.episodes] == [max(totals), min(totals)]


def test_one_agent_that_writes_all_parts_says_each_in_its_turn(tmp_path: Path) -> None:
    env, group = searched()
    source, totals = recorded("run", [group], tmp_path, env), [e.total for e in group.episodes]
    alone = Team({"agent_0": RandomText()})
    [again] = Preferences(source).play(with_protocol(env, "centralized"), alone, ["scouts"], [5], SAMPLING)
    wanted = [
        env.facts.join([turn.actions[agent].text if agent in turn.actions else "" for agent in env.possible_agents])
        for turn in group.episodes[totals.index(max(totals))].turns
    ]
    assert [turn.actions["agent_0"].text for turn in again.episodes[0].turns] == wanted


def episode_row(task: str, reward: float, text: str = "red") -> Trace:
    turn = Turn(dict.fromkeys(AGENTS, "a colour"), dict.fromkeys(AGENTS, Completion(text)), reward)
    env = Colourful(ITEMS)
    return from_episode(Episode(task, 0, (turn,), True), Header.of(env, "colourful-v0"), TaskItem(task, "say"))


def test_a_recorded_task_without_a_pair_has_an_empty_group(tmp_path: Path) -> None:
    rows = [episode_row("t0", 1.0), episode_row("t0", 0.0), episode_row("t1", 1.0), episode_row("t1", math.nan)]
    source = pairs_file(tmp_path, *rows)
    groups = Preferences(source).play(
        Colourful(ITEMS), Team(dict.fromkeys(AGENTS, RandomText())), ["t0", "t1"], [0, 1], SAMPLING
    )
    assert [len(group.episodes) for group in groups] == [2, 0]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([episode_row("t0", 1.0), episode_row("t0", 1.0)], {}, "more than 0"),
        ([episode_row("t0", 1.0), episode_row("t0", 0.0)], {"margin": 1.0}, "more than 1"),
        ([{"task": "t", "chosen": {}, "rejected": {}}], {"choice": "all"}, "pairs and margin"),
        ([{"task_id": "t", "events": [{"type": "message", "agent": "a"}]}], {}, "row 1"),
        ([{"task": "t", "chosen": {"agent_0": "a"}}], {}, "row 1.*'rejected'"),
        ([{"task": "t", "chosen": {"agent_0": 3}, "rejected": {}}], {}, "row 1"),
        ([[]], {}, "row 1"),
        ([], {}, "is empty"),
    ],
)
def test_a_source_that_gives_no_pair_is_refused(
    rows: list[Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        Preferences(pairs_file(tmp_path, *rows), **options)
