"""Every candidate function is of the kind that it is listed under, which the code sandbox confirms."""

from __future__ import annotations

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents.io.models import TABLE
from llm_dec_pomdp.envs.coding.candidates import candidates
from llm_dec_pomdp.envs.coding.reward import Program, job
from llm_dec_pomdp.envs.coding.schemes import classify
from llm_dec_pomdp.envs.wrappers import Choices
from llm_dec_pomdp.evaluation.teams import default_model
from llm_dec_pomdp.sandbox import cached_verdicts
from llm_dec_pomdp.types import TaskItem

ITEMS, MBPP = (
    llm_dec_pomdp.make(env_id, split="train", candidates=True).items for env_id in ("coophumaneval-v0", "mbpp-v0")
)
PASS = (
    ("gold", "gold", "coordinator"),
    ("gold", "fallback", "fallback"),
    ("decorator", "decorator", "decorator"),
    ("strategy filter", "strategy filter", "strategy filter"),
    ("stub", "helper ignored", ""),
)
FAIL = (("off by one", "gold"), ("gold", "off by one"), ("stub", "gold"), ("gold", "stub"))


@pytest.mark.every(2)
@pytest.mark.parametrize("item", (*ITEMS, *MBPP), ids=lambda item: item.id)
def test_candidates_are_what_they_are_called(item: TaskItem) -> None:
    aux, main = candidates()[item.id]["aux"], candidates()[item.id]["main"]
    assert (aux["gold"], main["gold"]) == item.reference
    for helper, whole, scheme in PASS:
        program = Program(aux[helper], main[whole])
        [verdict] = cached_verdicts([job(item, program.source)])
        assert verdict.outcome == "passed" and verdict.passed == verdict.total, (helper, whole)
        shows = classify(item, program, cached_verdicts)
        assert (scheme in shows) if scheme else not shows, (helper, whole, shows)
    for helper, whole in FAIL:
        [verdict] = cached_verdicts([job(item, Program(aux[helper], main[whole]).source)])
        assert verdict.passed < verdict.total, (helper, whole)


def test_a_letter_receives_the_reward_of_its_function() -> None:
    env = llm_dec_pomdp.make("coophumaneval-v0", split="train", candidates=True)
    assert isinstance(env, Choices)
    item = ITEMS[0]
    letters = {
        agent: next(letter for letter, text in env.lettered(item, agent).items() if text == reference)
        for agent, reference in zip(env.possible_agents, item.reference, strict=True)
    }
    env.reset(options={"task_id": item.id})
    _, rewards, *_ = env.step(letters)
    assert set(rewards.values()) == {4.0}


def test_with_candidates_tables_play_by_default() -> None:
    free = llm_dec_pomdp.make("coophumaneval-v0", split="train")
    assert default_model(llm_dec_pomdp.make("coophumaneval-v1", split="train", candidates=True)) == TABLE
    assert default_model(free) != TABLE and len(free.items) > len(ITEMS)
