"""Environments as TRL takes them: rows, and a reward of texts that belong together."""

from __future__ import annotations

from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.integrations.trl import joint_reward, row, rows_of_tasks, team_dataset
from llm_dec_pomdp.types import Completion, Episode, Turn

ENV = llm_dec_pomdp.make("tldr-v0")
GOLD = {item.id: dict(zip(ENV.possible_agents, item.reference, strict=True)) for item in ENV.items}


def messages_of(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_a_row_is_what_an_agent_is_told() -> None:
    rows: list[dict[str, Any]] = team_dataset(ENV).to_list()  # pyright: ignore[reportUnknownVariableType]
    assert len(rows) == 2 * len(ENV.items)
    assert [row["agent"] for row in rows[:4]] == ["agent_0", "agent_1"] * 2
    assert rows[3]["task_id"] == ENV.items[1].id
    observations, _ = ENV.reset(options={"index": 1})
    assert rows[3]["prompt"] == [{"role": "user", "content": observations["agent_1"]}]


def test_the_gth_texts_of_a_task_are_one_joint_action() -> None:
    first, other = (item.id for item in ENV.items[:2])
    gold = [GOLD[first][agent] for agent in ENV.possible_agents]
    # two texts of each agent of two tasks, as a sampler of groups gives them
    texts = [gold[0], "", gold[1], gold[1], GOLD[other]["agent_0"], "x", GOLD[other]["agent_1"], "y"]
    agents = ["agent_0", "agent_0", "agent_1", "agent_1"] * 2
    rewards = joint_reward(ENV)([*map(messages_of, texts)], [first] * 4 + [other] * 4, agents, prompts=None)
    best = ENV.facts.max_return
    assert rewards[0] == rewards[2] == best
    assert rewards[1] == rewards[3] != best
    assert rewards[4] == rewards[6] == best
    assert joint_reward(ENV)(texts, [first] * 4 + [other] * 4, agents) == rewards  # plain texts, too


def test_texts_whose_partners_are_elsewhere_are_an_error() -> None:
    task = ENV.items[0].id
    with pytest.raises(ValueError, match=r"'agent_0': 2, 'agent_1': 1"):
        joint_reward(ENV)(["a", "b", "c"], [task] * 3, ["agent_0", "agent_0", "agent_1"])


def test_what_is_no_row_of_texts_is_refused() -> None:
    with pytest.raises(ValueError, match="max_turns 2"):
        joint_reward(llm_dec_pomdp.make("tldr-v0", max_turns=2))
    with pytest.raises(ValueError, match="individual"):
        team_dataset(llm_dec_pomdp.make("research-v0"))
    with pytest.raises(ValueError, match="individual"):
        joint_reward(llm_dec_pomdp.make("research-v0", max_turns=1))


def test_what_could_not_be_scored_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    env = llm_dec_pomdp.make("tldr-v0")

    def step(texts: dict[str, str]) -> tuple[Any, ...]:
        return {}, dict.fromkeys(texts, float("nan")), {}, {}, {}

    monkeypatch.setattr(env, "step", step)
    assert joint_reward(env)(["a", "b"], [env.items[0].id] * 2, ["agent_0", "agent_1"]) == [None, None]


def episode(*texts: Completion, reward: float = 0.5) -> Episode:
    """In which agent_0 says these, a turn each, and agent_1 nothing."""
    return Episode("post", 0, tuple(Turn({}, {"agent_0": text}, reward) for text in texts), terminated=True)


def test_a_row_is_what_was_shown_and_sampled_token_by_token() -> None:
    first = Completion("a", prompt_ids=(1, 2), token_ids=(7, 8), logprobs=(-1.0, -2.0))
    second = Completion("b", prompt_ids=(1, 2, 7, 8, 3, 4), token_ids=(9,), logprobs=(-0.5,))
    assert row(episode(first, second), "agent_0") == {
        "prompt_ids": [1, 2],
        "completion_ids": [7, 8, 3, 4, 9],
        "env_mask": [1, 1, 0, 0, 1],
        "logprobs": [-1.0, -2.0, 0.0, 0.0, -0.5],
        "episode_return": 1.0,
    }
    assert row(episode(first, reward=float("nan")), "agent_0")["episode_return"] is None


def test_what_cannot_be_a_row_is_refused() -> None:
    first = Completion("a", prompt_ids=(1, 2), token_ids=(7, 8), logprobs=(-1.0, -2.0))
    anew = Completion("b", prompt_ids=(1, 2, 7, 5, 3), token_ids=(9,), logprobs=(-0.5,))
    with pytest.raises(ValueError, match="completion 2 of agent_0 in task 'post'"):
        row(episode(first, anew), "agent_0")
    with pytest.raises(ValueError, match="agent_1"):
        row(episode(first), "agent_1")


def test_prompts_say_which_tasks_are_played() -> None:
    tasks = {("a0", "a1"): "a", ("b0", "b1"): "b"}
    assert rows_of_tasks(["b0", "b0", "b1", "b1", "a0", "a0", "a1", "a1"], tasks, 2, 2) == ["b", "a"]
    for wrong in (["a0", "a1", "a0", "a1"], ["a0", "a0", "b1", "b1"], ["a0", "a0"]):
        with pytest.raises(ValueError, match="shuffle_dataset=False"):
            rows_of_tasks(wrong, tasks, 2, 2)
