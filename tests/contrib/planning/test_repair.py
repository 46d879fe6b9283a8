"""repair-v0: acts that repair a fault, observations after other acts, and the length of the shortest plan."""

from __future__ import annotations

from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.contrib.planning.repair import mend, shortest
from llm_dec_pomdp.envs.tasks import TaskError

ROW = {
    "prompt": "No connection.",
    "manual": "line ok sim on plan ok airplane off",
    "phone": "airplane on sim off line broken plan ok",
}
SIZE = {"settings": 2, "accounts": 2}


def play(*turns: tuple[str, str]) -> tuple[list[float], Any]:
    """Return the reward of each turn, given the texts of assistant and customer, after a first turn of empty texts."""
    env: Any = llm_dec_pomdp.make("repair-v0", tasks=[ROW], **SIZE)
    env.reset(seed=0)
    paid = [env.step(dict(zip(env.agents, texts, strict=True)))[1]["agent_0"] for texts in (("", ""), *turns)]
    return paid[1:], env


@pytest.mark.parametrize("call", ["fix_line()", '<tool_call>{"name": "fix_line", "arguments": {}}</tool_call>'])
def test_both_mend_in_one_turn_and_the_last_fault_ends_the_episode(call: str) -> None:
    paid, env = play((call, "I SET SIM ON"), ("", "SET airplane on, no: SET airplane off"))
    assert paid == [-0.05, 1.0]
    assert env.agents == []
    assert env.last_score.components == pytest.approx({"plan": 1.0, "turns": -0.1, "words": 0.0})
    assert env.optimal_turns(env.items[0]) == 2


@pytest.mark.parametrize(
    ("turn", "paid", "reader", "answer"),
    [
        (("fix_line()", ""), -0.05, "agent_0", "line is ok now.\nFaults mended: 1"),
        (("", "SET sim on"), -0.10, "agent_1", "sim on mends nothing now.\nFaults mended: 0"),
        (("fix_plan()", "SET airplane off"), -0.15, "agent_1", "airplane off mends nothing now."),
        (("", "SET volume on"), -0.10, "agent_1", "There is no setting 'volume'; there are airplane, sim."),
        (("fix_all()", ""), -0.10, "agent_0", "There is no tool 'all'; there are line, plan."),
        (("<tool_call>fix", ""), -0.10, "agent_0", "There is no tool ''"),
        (("", "SET it"), -0.05, "agent_1", "SET needs a setting and on or off"),
        (("SET sim on", ""), -0.05, "agent_1", "Assistant: SET sim on"),  # only the customer has the phone
        (("", "fix_line()"), -0.05, "agent_0", "Customer: fix_line()"),
    ],
)
def test_an_act_that_mends_nothing_costs_a_turn_more_and_is_answered(
    turn: tuple[str, str], paid: float, reader: str, answer: str
) -> None:
    rewards, env = play(turn)
    assert rewards == pytest.approx([paid])
    assert answer in env.history(reader)[-1].text


def test_with_individual_rewards_each_agent_pays_for_its_own_words_and_acts() -> None:
    joint, individual = (
        llm_dec_pomdp.make("repair-v0", tasks=[ROW], rewards=rewards, word_cost=0.01, **SIZE)
        for rewards in ("joint", "individual")
    )
    texts = {"agent_0": "Please wait now", "agent_1": "SET sim on"}  # three words, and an act that repairs nothing
    for env in (joint, individual):
        env.reset(seed=0)
        env.step(dict.fromkeys(env.agents, ""))
    assert joint.step(texts)[1] == pytest.approx(dict.fromkeys(texts, -0.05 - 0.03 - 0.05))
    assert individual.step(texts)[1] == pytest.approx({"agent_0": -0.05 - 2 * 0.03, "agent_1": -0.05 - 2 * 0.05})


def test_acts_mend_in_whatever_order_they_help() -> None:
    faults = (("line", "ok"), ("sim", "on"), ("plan", "ok"))
    assert mend(faults, 0, [faults[1], faults[0]]) == 2
    assert mend(faults, 0, [faults[1]]) == 0
    assert mend(faults, 1, [faults[1], faults[0]]) == 2


@pytest.mark.parametrize(
    ("owners", "turns"),
    [("a", 1), ("ac", 1), ("cc", 2), ("aca", 2), ("acca", 2), ("ccac", 3), ("aacc", 3), ("ccccc", 5)],
)
def test_the_shortest_plan_pairs_faults_of_both(owners: str, turns: int) -> None:
    names = {"a": iter(("line", "plan", "bill")), "c": iter(("sim", "data", "roaming", "apn", "vpn"))}
    faults = tuple((next(names[owner]), "ok" if owner == "a" else "on") for owner in owners)
    assert shortest(faults) == turns


def test_one_that_knows_all_sets_and_calls_in_one_text() -> None:
    env: Any = llm_dec_pomdp.make("repair-v0", tasks=[ROW], **SIZE).single_agent()
    observation = env.reset(seed=0)[0]["agent_0"]
    assert "Assistant knows: line ok sim on" in observation
    assert [tool.name for tool in env.tools("agent_0")] == ["fix_line", "fix_plan"]
    assert "fix_line()\nSET sim on" in env.choices("agent_0")
    assert env.step({"agent_0": "fix_line()\nSET sim on"})[1]["agent_0"] == -0.05
    assert env.history("agent_0")[-1].text.endswith("Turns left: 7")
    assert env.step({"agent_0": "SET airplane off"})[1]["agent_0"] == 1.0


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"manual": "sim on"}, "field 'manual': 'airplane'"),
        ({"manual": ROW["manual"].replace("line ok", "line broken")}, "field 'manual': .*broken"),
        ({"phone": "airplane on airplane off line ok plan ok"}, "field 'phone': .* each name once"),
        ({"phone": "airplane off sim on line ok plan ok"}, "field 'phone': has no fault"),
    ],
)
def test_phones_that_cannot_be_mended_are_named(row: dict[str, str], problem: str) -> None:
    with pytest.raises(TaskError, match=problem):
        llm_dec_pomdp.make("repair-v0", tasks=[{**ROW, **row}], **SIZE)
