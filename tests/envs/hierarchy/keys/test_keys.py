"""keys-v0: who is told what, who is paid what, and what teams of known value earn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.envs import TaskError
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.hierarchy.keys.task import Keys
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import TaskItem

# r0 leads one further, r1 two further, r2 to e0; filed under k1, k2, k0
WORLD = TaskItem("w", "Q e1 r0 r1", "train", fields={"facts": "1 2 3 0\n2 3 0 1\n0 0 0 0"})


def keys(item: TaskItem = WORLD, **options: Any) -> Keys:
    return Keys([item], entities=4, **options)


def play(env: TextDecPOMDP, texts: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """Say the texts, each by whoever is asked; returns what everybody earned and was told last."""
    env.reset(seed=0, options={"index": 0})
    earned: dict[str, float] = {}
    observed: dict[str, str] = {}
    for text in texts:
        asked = [agent for agent in env.agents if env.asked(agent)]
        observations, rewards, *_ = env.step({agent: text if agent in asked else "x" for agent in env.agents})
        observed |= {agent: seen for agent, seen in observations.items() if seen}
        earned = {agent: earned.get(agent, 0.0) + paid for agent, paid in rewards.items()}
    assert not env.agents
    return earned, observed


@pytest.mark.parametrize(
    ("texts", "main", "subs"),
    [
        (["r0", "k1", "r1", "k2", "ANS"], 1.0, [1.0, 1.0]),
        (["r0", "k1", "ANS"], 0.1, [0.6]),
        (["ANS"], 0.1, []),
        ([""], 0.0, []),
        (["r0", "k1", "r7"], 0.0, [0.6]),
        (["r0", "k0", "r1", "k2", "ANS"], 0.1, [0.1, 0.6]),  # e0 for e2, then from e0 to e2, which is not e0
        (["r0", "k1", "r1", "x", "ANS"], 0.1, [0.6, 0.0]),
        (["r0", "k1", "r1", "k1 k1", "r1", "k2", "ANS"], 1.0, [1.0, 0.0, 1.0]),
        (["r2", "k0", "r2", "k2", "ANS"], 0.1, [0.6, 0.1]),
        (["r0", "k1", "r1", "k2", "r0", "k1", "r0"], 0.0, [0.6, 0.6, 0.6]),
    ],
)
def test_main_and_sub_agents_are_paid_as_the_paper_pays_them(texts: list[str], main: float, subs: list[float]) -> None:
    env = keys()
    earned, _ = play(env, texts)
    assert list(earned.values()) == pytest.approx([main, *subs])
    assert env.latest.transition.reward == pytest.approx(main)
    score = env.last_score
    assert score is not None
    assert score.total == pytest.approx(main)
    assert score.diagnostics["invocations"] == len(subs)


def test_a_right_answer_pays_a_sub_agent_whose_report_was_wrong() -> None:
    env = keys(TaskItem("w", "Q e1 r2 r2", "train", fields=dict(WORLD.fields)))  # the answer is e0
    earned, _ = play(env, ["r2", "k2", "r2", "k0", "ANS"])  # a wrong way to e3, from which r2 leads to e0
    assert earned == pytest.approx({"agent_0": 1.0, "agent_1": 0.1 + 0.4, "agent_2": 1.0})


def test_a_sub_agent_is_told_its_subtask_alone_and_main_its_report_alone() -> None:
    env = keys()
    play(env, ["r0", "k1", "r1", "k2", "ANS"])
    texts = {agent: [message.text for message in env.history(agent)] for agent in env.possible_agents}
    assert texts["agent_0"] == ["Q e1 r0 r1", "r0", "R e2", "r1", "R e0", "ANS"]
    assert texts["agent_1"] == ["S e1 r0", "k1"]
    assert texts["agent_2"] == ["S e2 r1", "k2"]
    assert texts["agent_3"] == []
    assert [env.role(agent) for agent in env.possible_agents] == ["main", "sub", "sub", "sub"]


def test_events_name_invocations_tools_reports_and_the_answer() -> None:
    env = keys()
    env.reset(seed=0)
    env.step({"agent_0": "r0"})
    [spawn] = env.latest.transition.events
    assert (spawn.kind, spawn.agent, dict(spawn.details)) == (
        "spawn",
        "agent_1",
        {"role": "sub", "by": "agent_0", "subtask": "S e1 r0"},
    )
    env.step({"agent_0": "", "agent_1": "k1"})
    assert [event.kind for event in env.latest.transition.events] == ["call", "result", "return"]
    assert env.latest.transition.events[-1].details == {"report": "R e2"}
    env.step({"agent_0": "ANS", "agent_1": ""})
    assert [(event.kind, dict(event.details)) for event in env.latest.transition.events] == [
        ("answer", {"answer": "R e2"})
    ]


def test_who_reported_stays_unasked_until_the_end() -> None:
    env = keys()
    env.reset(seed=0)
    env.step({"agent_0": "r0"})
    assert env.agents == ["agent_0", "agent_1"]
    env.step({"agent_0": "", "agent_1": "k1"})
    assert env.agents == ["agent_0", "agent_1"]
    assert not env.asked("agent_1")


@pytest.mark.parametrize(("turns", "subs"), [(1, 0), (2, 1), (3, 1), (4, 2)])
def test_running_out_of_turns_terminates_and_pays_sub_agents_without_an_answer(turns: int, subs: int) -> None:
    env = keys(max_turns=turns)
    env.reset(seed=0)
    terminated: dict[str, bool] = {}
    rewards: dict[str, float] = {}
    for text in ["r0", "k1", "r1", "k2"][:turns]:
        _, rewards, terminated, _, _ = env.step(dict.fromkeys(env.agents, text))
    assert all(terminated.values())
    assert list(rewards.values()) == pytest.approx([0.0, *[0.6] * subs])


# --- context ----------------------------------------------------------------------------------------------------------


def test_main_sees_the_end_of_its_history_where_the_context_is_limited() -> None:
    env = keys(context=5)
    play(env, ["r0", "k1", "r1", "k2", "ANS"])
    assert [m.text for m in env.history("agent_0")] == ["R e2 r1 R e0", "ANS"]


def test_ten_words_hold_an_optimal_episode_of_main_and_not_of_one_agent_alone() -> None:
    env = llm_dec_pomdp.make("keys-v0", context=10, split="test")
    assert env.facts.optimum == 1.0
    assert value(env, Scripted(env.script("optimal"))) == 1.0
    single = with_protocol(env, "centralized")
    assert single.facts.optimum is None  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="set context to 0"):
        value(single, Scripted(single.script("optimal")))  # type: ignore[attr-defined]


# --- values -----------------------------------------------------------------------------------------------------------


def value(env: TextDecPOMDP, policy: Any, count: int = 40) -> float:
    """Mean return over the first tasks."""
    groups = Trajectories().play(env, policy, [item.id for item in env.items[:count]], range(count), Sampling())
    return sum(group.episodes[0].total for group in groups) / count


def expected(env: Any) -> float:
    """Mean return of a team that draws well-formed texts uniformly, by playing all of them."""
    [agent] = [agent for agent in env.agents if env.asked(agent)]
    texts = env.choices(agent, env.history(agent))
    total = 0.0
    for text in texts:
        twin = env.fork()
        twin.step({other: text if other == agent else "" for other in twin.agents})
        total += twin.latest.transition.reward + (expected(twin) if twin.agents else 0.0)
    return total / len(texts)


def test_the_optimal_team_earns_the_optimum_and_so_does_one_agent_alone() -> None:
    env = llm_dec_pomdp.make("keys-v0", split="test")
    single = env.single_agent()
    assert (value(env, Scripted(env.script("optimal"))), value(single, Scripted(single.script("optimal")))) == (
        1.0,
        1.0,
    )
    assert (env.facts.optimum, single.facts.optimum) == (1.0, 1.0)
    assert env.items == single.items


def test_a_random_team_earns_what_enumeration_says() -> None:
    env = keys(delegations=2)
    env.reset(seed=0)
    facts, answer = [[1, 2, 3, 0], [2, 3, 0, 1], [0, 0, 0, 0]], 0
    hits = sum(facts[j][facts[i][1]] == answer for i, j in itertools.product(range(3), repeat=2))
    once = sum(row[1] == answer for row in facts) / 3
    answers = [1 / 4, 3 / 4 * 1 / 4, 3 / 4 * 3 / 4 * 1 / 4]  # after no, one and two delegations
    assert expected(env) == pytest.approx(0.1 * sum(answers) + 0.9 * (answers[1] * once + answers[2] * hits / 9))


def test_one_agent_alone_reads_passages_and_is_paid_as_main_is() -> None:
    env = keys(filler=2).single_agent()
    assert play(env, ["k1", "k2", "ANS"])[0] == pytest.approx({"agent_0": 1.0})
    question, _, passage, *_ = env.history("agent_0")
    assert question.text == "Q e1 r0 r1"
    assert (passage.role, passage.name) == ("tool", "file")
    words = passage.text.split()
    assert (words[0], len(words), "e2" in words) == ("P", 4, True)
    assert play(env, ["k1", "k2", "k0", "k0"])[0] == {"agent_0": 0.0}
    assert play(env, ["ANS"])[0] == pytest.approx({"agent_0": 0.1})


# --- tasks ------------------------------------------------------------------------------------------------------------


def test_splits_share_no_table() -> None:
    train, test = (llm_dec_pomdp.make("keys-v0", split=split).items for split in ("train", "test"))
    assert (len(train), len(test)) == (2048, 256)
    assert len({item.fields["facts"] for item in (*train, *test)}) == 2048 + 256


def test_other_sizes_are_other_tasks_and_say_only_words_of_the_vocabulary() -> None:
    env = llm_dec_pomdp.make("keys-v0", relations=4, entities=5, delegations=2)
    single = env.single_agent()
    assert value(env, Scripted(env.script("optimal"))) == 1.0
    for playing in (env, single):
        play(playing, ["r3", "k0", "ANS"] if playing is env else ["k0", "ANS"])
        words = {word for agent in playing.possible_agents for m in playing.history(agent) for word in m.text.split()}
        assert words <= set(playing.facts.vocabulary)


ROWS = [
    ({"prompt": "Q e1 r0", "facts": "0 1\n1 0"}, r"field 'prompt': is 'Q e1 r0'; write"),
    ({"prompt": "Q e9 r0 r1", "facts": "0 1\n1 0\n0 0"}, r"field 'prompt': 'Q e9 r0 r1' names a relation"),
    ({"prompt": "Q e1 r0 r1", "facts": "0 1\n1 7\n0 0"}, r"field 'facts': line 2 has '7'"),
    ({"prompt": "Q e1 r0 r1", "facts": "0 1\n1\n0 0"}, r"field 'facts': line 2 has 1 numbers"),
    ({"prompt": "Q e1 r0 r1", "facts": "0 1\n1 0"}, r"has 2 relations and 2 entities; set relations=2"),
    ({"prompt": "Q e1 r0 r1"}, r"facts"),
]


@pytest.mark.parametrize(("row", "message"), ROWS)
def test_a_file_with_a_row_that_cannot_be_played_is_refused(row: dict[str, str], message: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(TaskError, match=message) as caught:
        llm_dec_pomdp.make("keys-v0", tasks=file, entities=2)
    assert str(file) in str(caught.value)


def test_a_file_of_good_rows_is_played(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"prompt": "Q e1 r0 r1", "facts": "0 1\\n1 0\\n0 0"}', encoding="utf-8")
    env = llm_dec_pomdp.make("keys-v0", tasks=file, entities=2)
    assert value(env, Scripted(env.script("optimal")), 1) == 1.0
