"""Every candidate function is of the kind that it is listed under, which the judge confirms."""

from __future__ import annotations

import itertools

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents.loading import TABLE
from llm_dec_pomdp.envs.coding.candidates import judged, kinds, lettered
from llm_dec_pomdp.envs.coding.reward import Program, job
from llm_dec_pomdp.envs.coding.schemes import classify
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.evaluation.teams import default_model
from llm_dec_pomdp.types import TaskItem

ITEMS = llm_dec_pomdp.make("coophumaneval-v0", split="train", candidates=True).items
PASS = (
    ("gold", "gold", "coordinator"),
    ("gold", "fallback", "fallback"),
    ("decorator", "decorator", "decorator"),
    ("strategy filter", "strategy filter", "strategy filter"),
    ("stub", "helper ignored", ""),
)
FAIL = (("off by one", "gold"), ("gold", "off by one"), ("stub", "gold"), ("gold", "stub"))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.id)
def test_candidates_are_what_they_are_called(item: TaskItem) -> None:
    aux, main = kinds()[item.id]["aux"], kinds()[item.id]["main"]
    assert (aux["gold"], main["gold"]) == item.reference
    for helper, whole, scheme in PASS:
        program = Program(aux[helper], main[whole])
        [verdict] = judged([job(item, program.source)])
        assert verdict.outcome == "passed" and verdict.passed == verdict.total, (helper, whole)
        shows = classify(item, program, judged)
        assert (scheme in shows) if scheme else not shows, (helper, whole, shows)
    for helper, whole in FAIL:
        [verdict] = judged([job(item, Program(aux[helper], main[whole]).source)])
        assert verdict.passed < verdict.total, (helper, whole)


def test_a_letter_earns_what_its_function_earns() -> None:
    env = llm_dec_pomdp.make("coophumaneval-v0", split="train", candidates=True)
    item = ITEMS[0]
    letters = {
        agent: next(c for c, text in lettered(item, role).items() if text == kinds()[item.id][role]["gold"])
        for agent, role in zip(env.possible_agents, ("aux", "main"), strict=True)
    }
    observations, _ = env.reset(options={"task_id": item.id})
    assert all(c in env.choices(agent) and f"\n{c}:\n" in str(observations[agent]) for agent, c in letters.items())
    _, rewards, *_ = env.step(letters)
    assert set(rewards.values()) == {4.0}


def test_only_where_candidates_are_asked_for_tables_play_by_default() -> None:
    free = llm_dec_pomdp.make("coophumaneval-v0", split="train")
    assert default_model(llm_dec_pomdp.make("coophumaneval-v1", split="train", candidates=True)) == TABLE
    assert default_model(free) != TABLE and len(free.items) > len(ITEMS)
    with pytest.raises(TaskError, match="leaves out every row"):
        llm_dec_pomdp.make("mbpp-v0", candidates=True)


def test_a_scripted_reviewer_names_the_reference_as_often_as_it_should() -> None:
    def suggested(right: float) -> list[bool]:
        env = llm_dec_pomdp.make(
            "coophumaneval-v0", split="train", candidates=True, feedback="expert", expert=right, max_turns=2
        )
        found: list[bool] = []
        for item in env.items:
            for joint in itertools.product("ABCDE", "ABCDEFG"):
                env.reset(options={"task_id": item.id})
                told, *_ = env.step(dict(zip(env.possible_agents, joint, strict=True)))
                found += [item.reference[place] in str(text) for place, text in enumerate(told.values())]
        return found

    assert all(suggested(1.0)) and not any(suggested(0.0))
    assert 0.5 < sum(some := suggested(0.6)) / len(some) < 0.7
    with pytest.raises(ValueError, match=r"expert is 0\.6"):
        llm_dec_pomdp.make("coophumaneval-v0", feedback="expert", expert=0.6)
