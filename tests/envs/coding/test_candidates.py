"""Every candidate function is of the kind that it is listed under, which the judge confirms."""

from __future__ import annotations

import itertools
from statistics import fmean

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents.io.models import TABLE
from llm_dec_pomdp.envs.coding.candidates import LETTERS, judged, kinds, lettered, reviewed
from llm_dec_pomdp.envs.coding.reward import Program, job
from llm_dec_pomdp.envs.coding.schemes import classify
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.evaluation.teams import default_model
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
        llm_dec_pomdp.make("humaneval-v0", candidates=True)


def test_a_scripted_reviewer_names_the_references_as_often_as_it_should() -> None:
    def right(q: float) -> list[bool]:
        found: list[bool] = []
        for item, number in itertools.product(ITEMS, range(100)):
            edits = reviewed(item, ("", str(number)), q)
            same = [edits[role] == reference for role, reference in zip(LETTERS, item.reference, strict=True)]
            assert len(set(same)) == 1 and all(edits[role] in kinds()[item.id][role].values() for role in LETTERS)
            found += same
        return found

    assert all(right(1.0)) and not any(right(0.0))
    assert 0.55 < fmean(right(0.6)) < 0.65
    env = llm_dec_pomdp.make(
        "coophumaneval-v0", split="train", candidates=True, feedback="expert", expert=1.0, max_turns=2
    )
    env.reset(options={"task_id": ITEMS[0].id})
    feedback, *_ = env.step(dict.fromkeys(env.possible_agents, "return"))
    assert all(
        text in str(feedback[agent]) for agent, text in zip(env.possible_agents, ITEMS[0].reference, strict=True)
    )
    with pytest.raises(ValueError, match=r"expert is 0\.6"):
        llm_dec_pomdp.make("coophumaneval-v0", feedback="expert", expert=0.6)
