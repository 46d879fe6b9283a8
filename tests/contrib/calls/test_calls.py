"""calls-v0: observations of each agent, effects of calls, and the three rewards, computed by hand."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.calls.applications import APPLICATIONS, asked, understood
from llm_dec_pomdp.contrib.calls.generator import embedded, turns_of
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Trajectories

BANK, MAIL = "agent_2", "agent_3"
ROW = {
    "id": "a",
    "prompt": "Pay what Eva asks for by mail to Ben.",
    "world": json.dumps({"mail": [["Eva", "amount 24"], ["Ben", "amount 9"]], "bank": [["Eva", 30]]}),
    "turns": "\n".join(
        json.dumps(turn)
        for turn in (
            {"words": "", "calls": [["read_mail", {"sender": "Eva"}], ["pay", {"person": "Ben", "amount": 24}]]},
            {"words": "Also pay 5 to Ida.", "calls": [["pay", {"person": "Ida", "amount": 5}]]},
        )
    ),
}


def make_calls(**options: Any) -> Any:
    return llm_dec_pomdp.make("calls-v0", tasks=[ROW], **options)


def say(env: Any, **texts: str) -> tuple[dict[str, str], float]:
    observations, rewards, *_ = env.step({**dict.fromkeys(env.agents, ""), **texts})
    return observations, rewards["agent_0"]


def play(env: Any, *steps: dict[str, str]) -> list[float]:
    env.reset()
    return [say(env, **step)[1] for step in steps]


READ = {"agent_0": "mail: read Eva"}, {MAIL: 'read_mail("Eva")'}, {MAIL: "24 euros"}
PAY = {"agent_0": "bank: 24 to Ben"}, {BANK: 'pay(person="Ben", amount=24)'}, {BANK: "paid"}
IDA = {"agent_0": "bank: 5 to Ida"}, {BANK: 'pay(person="Ida", amount=5)'}, {BANK: "paid"}
DONE = ({"agent_0": "All is done."},)


def test_words_of_the_user_reach_specialists_through_orders_alone() -> None:
    env = make_calls()
    observations, _ = env.reset()
    assert observations["agent_0"].endswith("The user: Pay what Eva asks for by mail to Ben.")
    assert [agent for agent in env.agents if observations[agent]] == ["agent_0"]
    observations, _ = say(env, agent_0="I ask.\n- Mail: what does Eva want?\nbank: wait\nmail: tell me")
    assert observations[MAIL].endswith("Order: what does Eva want?\ntell me")
    assert observations[BANK].endswith("Order: wait")
    assert [env.asked(agent) for agent in env.agents] == [False, False, True, True, False, False]
    observations, _ = say(env, **{MAIL: 'read_mail(sender="Eva")', BANK: "I wait."})
    assert observations[MAIL] == "Eva writes: amount 24"
    assert [agent for agent in env.agents if env.asked(agent)] == [MAIL]  # the bank has reported
    observations, _ = say(env, **{MAIL: "She wants 24."})
    assert observations["agent_0"] == "mail reports: She wants 24.\nbank reports: I wait."
    observations, _ = say(env, agent_0="mail: again")
    assert observations[MAIL] == "Order: again"


@pytest.mark.parametrize(
    ("reward", "paid"),
    [
        ("outcome", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ("process", [0, 0, 0, 0, 0, 0, 1 / 2, 0, 0, 0, 1 / 2]),
        ("call", [0, 1 / 3, 0, 0, 1 / 3, 0, 0, 0, 1 / 3, 0, 0]),
    ],
)
def test_each_reward_pays_when_it_says(reward: str, paid: list[float]) -> None:
    env = make_calls(reward=reward)
    assert play(env, *READ, *PAY, *DONE, *IDA, *DONE) == pytest.approx(paid)
    assert env.last_score.diagnostics == pytest.approx({"outcome": 1, "process": 1, "call": 1, "calls": 3})
    assert not env.agents


@pytest.mark.parametrize(
    ("steps", "outcome", "process", "call"),
    [
        ([*PAY, *DONE, *IDA, *DONE], 1, 1, 2 / 3),  # who knows the amount need not read it
        ([*READ, *READ, *PAY, *DONE, *IDA, *DONE], 1, 1, 1),  # to read twice is no harm
        ([*READ, *PAY, *PAY, *DONE, *IDA, *DONE], 0, 0, 1),  # two payments leave another state
        ([*READ, *PAY, *DONE, *DONE], 0, 1 / 2, 2 / 3),
        ([*READ, *PAY, *IDA, *DONE, *DONE], 0, 1 / 2, 2 / 3),  # too early for the first user turn
        ([*READ, *DONE, *PAY, *IDA, *DONE], 0, 1 / 2, 2 / 3),
    ],
)
def test_what_is_right_after_each_user_turn(
    steps: list[dict[str, str]], outcome: float, process: float, call: float
) -> None:
    env = make_calls()
    play(env, *steps)
    found = env.last_score.diagnostics
    assert [found[name] for name in ("outcome", "process", "call")] == pytest.approx([outcome, process, call])


def test_wrong_calls_are_answered_and_change_nothing() -> None:
    env = make_calls()
    play(env, PAY[0])
    observations, _ = say(
        env, **{BANK: '[pay(person="Ben", amount=0), pay(person="Ben"), read_mail("Eva"), pay("Ben", 24)]'}
    )
    answers = [line for line in observations[BANK].splitlines() if not line.startswith("<")]
    named = ("amount is 0", "'amount'", "'read_mail'", "Ben was paid 24")
    assert all(name in answer for name, answer in zip(named, answers, strict=True))
    assert [call[4] for call in json.loads(env.state())["hidden"]["calls"]] == [False, False, False, True]


def test_calls_are_counted_and_so_are_wrong_and_repeated_ones() -> None:
    env = make_calls()
    calls = iter(['[read_mail("moon"), fly(), send_mail(1), read_mail("Eva")]', 'read_mail("Eva")', "24"])
    orders = iter(["mail: read Eva", "Done.", "Done."])
    policy = Scripted(lambda agent, history: next(orders if agent == "agent_0" else calls))
    groups = Trajectories("own").play(env, policy, ["a"], [0], Sampling())
    assert env.measure(groups) == {
        "rewards": {"outcome %": 0, "process %": 0, "call %": pytest.approx(100 / 3)},
        "function calls": {"calls": 5, "wrong names %": 20, "wrong arguments %": 40, "repeated %": 20},
    }
    assert env.measure([]) == {}


def test_who_knew_which_value_when_and_from_whom() -> None:
    env = make_calls()
    known = list[tuple[int, str, str, str]]()
    env.reset()
    for step in (*READ, PAY[0]):
        say(env, **step)
        events = [event for event in env.latest.transition.events if event.kind == "knows"]
        known += [(env.turn, env.role(e.agent), e.details["value"], e.details["from"]) for e in events]
    assert known == [
        (1, "mail", "Eva", "dispatcher"),
        (2, "mail", "24", "tools"),
        (3, "dispatcher", "24", "mail"),
        (4, "bank", "24", "dispatcher"),
        (4, "bank", "Ben", "dispatcher"),
    ]


def test_a_specialist_reports_after_three_texts_with_calls() -> None:
    env = make_calls()
    play(env, READ[0], READ[1], READ[1], READ[1])
    observations, _ = say(env, **READ[1])
    assert observations["agent_0"] == 'mail reports: read_mail("Eva")'


def test_a_blank_text_of_the_dispatcher_ends_nothing() -> None:
    env = make_calls(reward="process")
    env.reset()
    assert say(env) == ({**dict.fromkeys(env.agents, ""), "agent_0": "Give an order, or answer the user."}, 0.0)


def test_one_agent_under_the_centralized_protocol_orders_calls_and_reports_itself() -> None:
    env = with_protocol(make_calls(reward="process"), "centralized")
    (observation,) = env.reset()[0].values()
    assert observation.startswith("[dispatcher] You pass the wishes of a user on")
    assert len(env.tools("agent_0")) == 11
    observation = say(env, agent_0="mail: read Eva\nbank: wait")[0]["agent_0"]
    assert "Order: read Eva" in observation and observation.endswith("its name: [bank] and [mail].")
    observation = say(env, agent_0='[mail]\nread_mail("Eva")\n[bank]\nI wait.')[0]["agent_0"]
    assert observation == "[mail] Eva writes: amount 24"
    rest = ("24", "bank: 24 to Ben", 'pay("Ben", 24)', "paid", "[dispatcher]\nDone.")
    assert [say(env, agent_0=text)[1] for text in rest] == [0, 0, 0, 0, 0.5]


def test_some_rows_alone_are_played() -> None:
    every: Any = llm_dec_pomdp.make("calls-v0")
    assert llm_dec_pomdp.make("calls-v0", rows=[7, 2]).items == (every.items[7], every.items[2])


# --- rows -------------------------------------------------------------------------------------------------------------


def test_rows_are_of_two_to_six_calls_across_applications() -> None:
    rows = embedded()
    assert [sum(row.split == split for row in rows) for split in ("train", "test")] == [200, 100]
    turns = [turns_of(row.fields["turns"]) for row in rows]
    calls = [[call for turn in row for call in turn.calls] for row in turns]
    assert {len(row) for row in calls} == {2, 3, 4, 5, 6}
    assert {len(row) for row in turns} == {1, 2, 3}
    assert all(
        len({call.application for call in turn.calls}) > 1 for row in turns for turn in row if len(turn.calls) > 1
    )
    assert {call.application for row in calls for call in row} == set(APPLICATIONS)
    assert all(understood(call.application, call.order) == call for row in calls for call in row)


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("world", "[1]", "'world'"),
        ("turns", '{"words": "x", "calls": [["fly", {}]]}', "fly"),
        ("turns", '{"words": "x", "calls": [["price", {"item": "moon"}]]}', "moon"),
        ("turns", "#", "no user turn"),
    ],
)
def test_a_row_that_cannot_be_played_is_refused(field: str, value: str, named: str) -> None:
    with pytest.raises(TaskError, match=named):
        llm_dec_pomdp.make("calls-v0", tasks=[{**ROW, field: value}])


# --- choices ----------------------------------------------------------------------------------------------------------


def offered(text: str) -> list[str]:
    return sorted(line[2:] for line in text.splitlines()[-5:-1])


def test_agents_choose_among_right_and_wrong_orders_and_calls() -> None:
    env = make_calls(candidates=True)
    observation = env.reset()[0]["agent_0"]
    texts = offered(observation)
    assert {"mail: read the mail of Eva", "Done."} < set(texts)
    assert sum(text.endswith(": read the mail of Eva") for text in texts) == 2
    letter = next(line[0] for line in observation.splitlines() if line[2:] == "mail: read the mail of Eva")
    observation = say(env, agent_0=letter)[0][MAIL]
    texts = offered(observation)
    assert {'read_mail(sender="Eva")', "I cannot do that."} < set(texts)
    assert [text.split("(")[0] for text in texts] == ["I cannot do that.", "read_mail", "read_mail", "send_mail"]
    letter = next(line[0] for line in observation.splitlines() if line[2:] == 'read_mail(sender="Eva")')
    observation = say(env, **{MAIL: letter})[0]["agent_0"]
    assert observation.startswith("mail reports: Eva writes: amount 24")
    assert "bank: pay 24 to Ben" in offered(observation)


def test_words_are_few_where_agents_choose() -> None:
    env = llm_dec_pomdp.make("calls-v0", candidates=True, split="all")
    known, words = set(env.facts.vocabulary), set[str]()
    assert len(known) < 2000
    draw = random.Random(0)
    gold = env.script("gold")
    for team in ("gold", "random"):
        for item in env.items[::6]:
            env.reset(options={"task_id": item.id})
            while env.agents:
                letters = {a: draw.choice("ABCD") if team == "random" else "" for a in env.agents}
                acting = [a for a in env.agents if team == "gold" and env.asked(a)]
                env.step(letters | {a: gold(a, env.history(a)) for a in acting})
            words |= {word for a in env.possible_agents for message in env.history(a) for word in message.text.split()}
    assert words <= known


def test_an_order_means_the_call_of_its_application() -> None:
    assert understood("bank", "please pay 24 to Ben now") == asked("pay", person="Ben", amount=24)
    assert understood("mail", "pay 24 to Ben") is None
    assert understood("bank", "pay x to Ben") is None


# --- teams and laws ---------------------------------------------------------------------------------------------------


def returns(env: Any, team: str, rows: int) -> list[float]:
    script = env.script(team)
    found: list[float] = []
    for item in env.items[:rows]:
        env.reset(seed=0, options={"task_id": item.id})
        while env.agents:
            env.step({a: script(a, env.history(a)) if env.asked(a) else "" for a in env.agents})
        found.append(env.last_score.total)
    return found


@pytest.mark.parametrize("candidates", [False, True])
def test_gold_receives_all(candidates: bool) -> None:
    env = llm_dec_pomdp.make("calls-v0", split="all", candidates=candidates)
    assert set(returns(env, "gold", 30 if candidates else 300)) == {1.0}


def test_a_random_team_receives_next_to_nothing() -> None:
    assert sum(returns(llm_dec_pomdp.make("calls-v0", split="all"), "random", 20)) <= 1


def test_words_that_are_passed_on_are_no_orders() -> None:
    assert sum(returns(llm_dec_pomdp.make("calls-v0", reward="call"), "parrot", 50)) / 50 < 0.1
