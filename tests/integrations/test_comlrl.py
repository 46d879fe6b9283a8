"""Environments as comlrl takes them."""

from __future__ import annotations

from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents.io.models import load_model
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.integrations.comlrl import formatters, joint_reward, task_dataset

ENV = llm_dec_pomdp.make("tldr-v0")


def test_rows_are_tasks_in_the_order_of_training() -> None:
    ids = [ENV.items[place].id for place in (2, 0, 2)]
    assert task_dataset(ENV, ids)["task_id"] == ids
    assert task_dataset(ENV)["prompt"] == [item.prompt for item in ENV.items]


def test_a_prompt_has_the_tokens_that_this_package_gives_its_models() -> None:
    model, tokenizer = load_model("builtin:tiny")
    row = {"task_id": ENV.items[1].id}
    [_, prompt] = [formatter(row) for formatter in formatters(ENV, tokenizer)]
    ENV.reset(options={"task_id": row["task_id"]})
    assert tokenizer(prompt)["input_ids"] == LanguageModel(model, tokenizer).encode(ENV.history("agent_1"))


def test_the_reward_is_that_of_the_joint_action(monkeypatch: pytest.MonkeyPatch) -> None:
    env = llm_dec_pomdp.make("tldr-v0")
    item = env.items[3]
    reward, row = joint_reward(env), [{"task_id": item.id}]
    assert reward([item.reference[0], ""], [item.reference[1], "x"], batch_items=row) == [env.facts.max_return, 0.0]

    def step(texts: dict[str, str]) -> tuple[Any, ...]:
        return {}, dict.fromkeys(texts, float("nan")), {}, {}, {}

    monkeypatch.setattr(env, "step", step)
    with pytest.raises(ValueError, match=f"{item.id}.*could not be scored"):
        reward(["a"], ["b"], batch_items=row)


def test_several_turns_are_refused() -> None:
    with pytest.raises(ValueError, match="max_turns 2, but comlrl"):
        joint_reward(llm_dec_pomdp.make("tldr-v0", max_turns=2))
