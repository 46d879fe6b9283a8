"""Environments as TRL takes them: rows, and a reward of texts that belong together."""

from __future__ import annotations

from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.integrations.trl import joint_reward, team_dataset

ENV = llm_dec_pomdp.make("tldr-v0")
GOLD = {item.id: dict(zip(ENV.possible_agents, item.reference, strict=True)) for item in ENV.items}


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_a_row_is_what_an_agent_is_told() -> None:
    rows: list[dict[str, Any]] = team_dataset(ENV).to_list()  # pyright: ignore[reportUnknownVariableType]
    assert len(rows) == 2 * len(ENV.items)
    assert [row["agent"] for row in rows[:4]] == ["agent_0", "agent_1"] * 2
    assert rows[3]["task_id"] == ENV.items[1].id
    told, _ = ENV.reset(options={"index": 1})
    assert rows[3]["prompt"] == [{"role": "user", "content": told["agent_1"]}]


def test_the_gth_texts_of_a_task_are_one_joint_action() -> None:
    one, other = (item.id for item in ENV.items[:2])
    gold = [GOLD[one][agent] for agent in ENV.possible_agents]
    # two texts of each agent of two tasks, as a sampler of groups gives them
    texts = [gold[0], "", gold[1], gold[1], GOLD[other]["agent_0"], "x", GOLD[other]["agent_1"], "y"]
    agents = ["agent_0", "agent_0", "agent_1", "agent_1"] * 2
    rewards = joint_reward(ENV)([*map(said, texts)], [one] * 4 + [other] * 4, agents, prompts=None)
    best = ENV.max_return
    assert rewards[0] == rewards[2] == best
    assert rewards[1] == rewards[3] != best
    assert rewards[4] == rewards[6] == best
    assert joint_reward(ENV)(texts, [one] * 4 + [other] * 4, agents) == rewards  # plain texts, too


def test_texts_whose_partners_are_elsewhere_are_an_error() -> None:
    task = ENV.items[0].id
    with pytest.raises(ValueError, match=r"'agent_0': 2, 'agent_1': 1.*shuffle_dataset=False.*multiple of 2"):
        joint_reward(ENV)(["a", "b", "c"], [task] * 3, ["agent_0", "agent_0", "agent_1"])


def test_what_is_no_row_of_texts_is_refused() -> None:
    with pytest.raises(ValueError, match="2 turns"):
        team_dataset(llm_dec_pomdp.make("tldr-v0", max_turns=2))
    with pytest.raises(ValueError, match="individually"):
        joint_reward(llm_dec_pomdp.make("research-v0", max_turns=1))


def test_what_could_not_be_scored_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    env = llm_dec_pomdp.make("tldr-v0")

    def step(texts: dict[str, str]) -> tuple[Any, ...]:
        return {}, dict.fromkeys(texts, float("nan")), {}, {}, {}

    monkeypatch.setattr(env, "step", step)
    assert joint_reward(env)(["a", "b"], [env.items[0].id] * 2, ["agent_0", "agent_1"]) == [None, None]
