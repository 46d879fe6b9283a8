"""review-v0: the tests of the tester as data, the rewards by role, and the worth of the reviewer."""

from __future__ import annotations

from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.software.review import hidden_calls, module_of, read_tests
from llm_dec_pomdp.rollout import Trajectories


def make_review(**options: Any) -> Any:
    env = llm_dec_pomdp.make("review-v0", count=6, **options)
    env.reset(options={"index": 3})  # rates
    return env


def act(env: Any, author: str = "", tester: str = "", reviewer: str = "") -> dict[str, float]:
    return env.step({"agent_0": author, "agent_1": tester, "agent_2": reviewer})[1]


def test_tests_are_calls_with_literals_and_nothing_else() -> None:
    text = """Here are my tests:
    rate('white') == 3
    rate("white") == 3
    fee(-(1)) == [1, {'a': (2,)}]
    other(1) == 2
    rate(open('x')) == 3
    rate('a') == rate('b')
    rate('a').real == 3
    rate(*'a') == 3
    rate('a' == 3
    rate('a') == 3 == 3"""
    assert read_tests(text, ("rate", "fee")) == (("rate('white')", "3"), ("fee(-1)", "[1, {'a': (2,)}]"))
    assert len(read_tests("\n".join(f"rate({n}) == 0" for n in range(20)), ("rate",))) == 8


def test_the_hidden_tests_give_calls_for_every_module() -> None:
    env: Any = llm_dec_pomdp.make("review-v0", split="all", count=180)
    assert len({item.id for item in env.items}) == len(env.items) == 240
    assert all(hidden_calls(item) and len(module_of(item).functions) >= 2 for item in env.items)


@pytest.mark.slow
def test_the_tester_is_rewarded_by_the_mutants_that_its_tests_kill() -> None:
    env = make_review()
    item = env.item
    gold, calls = module_of(item).source, env.offered_texts(item, "tester")
    found: dict[str, float] = {}
    for kind, text in calls.items():
        env.reset(options={"index": 3})
        rewards = act(env, gold, text)
        assert rewards["agent_0"] == rewards["agent_2"] == 1.0
        found[kind] = rewards["agent_1"]
    assert found["all"] == 1.0
    assert 0 < found["one"] <= 1.0
    assert found["wrong"] == found["none"] == 0.0
    joint = make_review(rewards="joint")
    assert set(act(joint, gold, "").values()) == {1.0}


@pytest.mark.slow
def test_a_reviewer_is_worth_the_change_of_the_module_minus_its_cost() -> None:
    env = make_review()
    item = env.item
    versions = env.offered_texts(item, "author")
    gold, wrong, [first, *_] = versions["gold"], versions["stub"], module_of(item).functions
    calls = env.offered_texts(item, "tester")["all"]
    for draft, review, second, worth in (
        (wrong, f"REWRITE {first}", gold, 0.9),
        (gold, f"rewrite {first}, please", wrong, -1.1),
        (wrong, "REWRITE everything", gold, 0.0),  # no function: the module is accepted
        (gold, "ACCEPT", wrong, 0.0),
    ):
        texts = {"agent_0": iter([draft, second]), "agent_1": iter([calls]), "agent_2": iter([review])}
        policy = Scripted(lambda agent, history, texts=texts: next(texts[agent]))
        groups = Trajectories().play(env, policy, [item.id], [0], Sampling())
        measured = env.measure(groups)["review"]
        assert measured["worth"] == pytest.approx(worth)
        assert groups[0].episodes[0].total == pytest.approx(measured["draft %"] / 100 + worth)
        if worth == 0.9:
            seen = groups[0].episodes[0].turns[1].observations["agent_2"]
            assert "0 of " in seen and wrong.strip() in seen
