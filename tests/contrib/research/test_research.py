"""The course of a question: observations, invocations and rewards; and adversarial texts."""

from __future__ import annotations

import math

import pytest
from teams import main_says, play, research

CHAIN = 7  # In which town is the home of the teacher of Greta Stakel? Edda Tader taught her, and lives in Druvik
FIRST, SECOND = "Who taught Greta Stakel?", "In which town is the home of Edda Tader?"
ASK = f'ask("reader", "{FIRST}")'


SPECIALISTS = {"specialists": ["reader", "analyst+calculator"]}


def test_several_are_asked_at_once_and_each_call_has_its_answer() -> None:
    env = research()
    env.reset(options={"index": CHAIN})
    env.step({"agent_0": f'{ASK}\nask("cook", "Where?")\nask("analyst", "How many?")'})
    assert env.agents == ["agent_0", "agent_1", "agent_9"]
    assert [env.asked(agent) for agent in env.agents] == [False, True, True]
    assert "agent_0" not in env.history("agent_1")[0].text
    env.step({"agent_0": "", "agent_1": "me first", "agent_9": "schema()"})
    assert [env.asked(agent) for agent in env.agents] == [False, False, True]
    env.step({"agent_0": "", "agent_1": "", "agent_9": "me second"})
    last = env.history("agent_0")[-1]
    assert (last.role, last.name) == ("tool", "ask")
    blocks = last.text.split("</tool_response>")
    assert "me first" in blocks[0] and "nobody is called 'cook'" in blocks[1] and "me second" in blocks[2]


def test_main_sees_nothing_that_tools_gave_unless_it_is_reported() -> None:
    env = research()
    texts = [ASK, 'ask("analyst", "How many inhabitants has Druvik?")', "I do not know."]
    calls = {"agent_1": f'search("{FIRST}")', "agent_9": 'query("SELECT * FROM towns")'}
    play(
        env,
        main_says(*texts, sub=lambda agent, history: calls[agent] if len(history) == 1 else "I will not say"),
        index=CHAIN,
    )
    seen = "\n".join(message.text for message in env.history("agent_0") if message.role != "action")
    assert "Edda Tader" in env.history("agent_1")[2].text and "41919" in env.history("agent_9")[2].text
    assert "Edda Tader" not in seen and "41919" not in seen


def test_what_happened_is_told_by_events() -> None:
    env = research()
    _, events = play(env, env.script("optimal"), index=CHAIN)
    kinds = [(event.kind, event.agent) for event in events]
    invocation = ["spawn", "call", "result", "return"]
    assert kinds == [
        *((k, "agent_1") for k in invocation),
        *((k, "agent_2") for k in invocation),
        ("answer", "agent_0"),
    ]
    assert dict(events[0].details) == {"role": "reader", "by": "agent_0", "subtask": FIRST}
    assert events[1].details["tool"] == "search"


def test_specialists_have_the_tools_of_their_skills() -> None:
    env = research(**SPECIALISTS, max_invocations=1)
    assert [env.role(agent) for agent in env.possible_agents] == ["main", "reader", "analyst+calculator"]
    names = {agent: [tool.name for tool in env.tools(agent)] for agent in env.possible_agents}
    assert names == {"agent_0": ["ask"], "agent_1": ["search", "read"], "agent_2": ["schema", "query", "python"]}
    say = main_says(ASK, "x", sub=lambda agent, history: "schema()" if len(history) == 1 else "x")
    _, events = play(env, say, index=CHAIN)
    assert "there is no tool 'schema'" in events[2].details["output"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('ask("nobody", "who?")', "nobody is called 'nobody'"),
        ('<tool_call>{"name": "search", "arguments": {}}</tool_call>', "there is no tool 'search'"),
        ("\n".join([ASK] * 9), "ask may be called 8 times"),
    ],
)
def test_main_is_told_why_a_call_cannot_be_run_and_goes_on(text: str, why: str) -> None:
    env = research()
    rewards, _ = play(env, main_says(text, "Druvik", sub=lambda agent, history: "Nobody knows."), index=CHAIN)
    assert why in "".join(message.text for message in env.history("agent_0") if message.role == "tool")
    assert rewards["agent_0"] == pytest.approx(0.1)
    assert env.last_score.diagnostics["right"] == 1.0


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_text_without_words_ends_the_question_and_earns_nothing(text: str) -> None:
    env = research()
    rewards, events = play(env, main_says(text, sub=env.script("optimal")))
    assert rewards == {"agent_0": 0.0}
    assert [event.kind for event in events] == ["stop"]


def test_a_sub_agent_that_never_reports_is_sent_home() -> None:
    env = research()
    rewards, events = play(env, main_says(ASK, "x", sub=lambda agent, history: 'search("who")'))
    assert sum(event.kind == "call" for event in events) == 5
    assert "Your next text has to be your report." in env.history("agent_1")[-2].text
    assert rewards == pytest.approx({"agent_0": 0.1, "agent_1": 0.0})


def test_a_report_that_is_too_long_is_cut_with_a_note() -> None:
    env = research()
    play(env, main_says(ASK, "x", sub=lambda agent, history: "word " * 500))
    assert "[cut after 60 words]" in env.history("agent_0")[-2].text
    assert len(env.history("agent_0")[-2].text.split()) < 90


def test_time_that_runs_out_terminates_and_pays_what_was_reported() -> None:
    env = research(max_turns=4)
    rewards, _ = play(env, main_says(ASK, ASK, sub=env.script("optimal")), index=CHAIN)
    assert env.latest.transition.terminated
    assert rewards == pytest.approx({"agent_0": 0.0, "agent_1": 0.6})


def test_programs_of_an_invocation_share_their_names_and_those_of_others_do_not() -> None:
    env = research()
    env.reset(seed=0)
    env.step({"agent_0": 'ask("calculator", "a")\nask("calculator", "b")'})
    first, second = env.agents[1:]
    env.step({"agent_0": "", first: 'python("x = 3")', second: 'python("x = 4")'})
    env.step({"agent_0": "", first: 'python("x")', second: 'python("y")'})
    assert env.history(first)[-1].text == "3"
    assert "NameError" in env.history(second)[-1].text


# --- truth ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "right"), [("Druvik", 1.0), ("Druvik or Stellen", 0.0), ("Stellen", 0.0)])
def test_a_right_answer_that_nobody_reported_is_not_correct(answer: str, right: float) -> None:
    env = research()
    rewards, _ = play(env, main_says(answer, sub=env.script("optimal")), index=CHAIN)
    assert rewards["agent_0"] == pytest.approx(0.1)
    assert (env.last_score.diagnostics["right"], env.last_score.diagnostics["support"]) == (right, 0.0)


@pytest.mark.parametrize(
    ("kind", "subtask", "call", "report", "expert"),
    [
        ("reader", FIRST, f'search("{FIRST}")', "It was Edda Tader, who taught Greta Stakel.", 1.0),
        ("reader", FIRST, f'search("{FIRST}")', "Edda Tader or Leo Dorzel.", 0.0),
        ("reader", FIRST, f'search("{FIRST}")', "Leo Dorzel.", 0.0),
        ("reader", FIRST, f'search("{FIRST}")', "Somebody.", 0.0),
        ("reader", FIRST, 'search("Stellen")', "Edda Tader", 0.0),
        ("reader", FIRST, 'read("110")', "Edda Tader", 0.0),  # a number is wanted
        ("reader", FIRST, "read(110)", "Edda Tader", 1.0),
        ("analyst", "inhabitants of Druvik", 'query("SELECT * FROM towns")', "41,919 inhabitants", 1.0),
        ("analyst", "inhabitants of Druvik", 'query("SELECT 41919")', "41919", 0.0),  # does not depend on the table
        ("analyst", "inhabitants of Druvik", 'query("SELECT name, river FROM towns")', "41919", 0.0),
        ("analyst", "companies in Stellen", "query(\"SELECT name FROM companies WHERE seat = 'Stellen'\")", "1", 1.0),
        ("analyst", "companies in Stellen", 'query("SELECT name FROM companies")', "1", 0.0),
        ("calculator", "the sum of 12 and 30", 'python("12 + 30")', "12 and 30 are 42", 1.0),
        ("calculator", "the sum of 12 and 30", 'python("12 * 30")', "42", 0.0),
    ],
)
def test_a_report_is_good_when_it_holds_what_was_asked_by_what_calls_showed(
    kind: str, subtask: str, call: str, report: str, expert: float
) -> None:
    env = research()
    say = main_says(f'ask("{kind}", "{subtask}")', "x", sub=lambda a, history: call if len(history) == 1 else report)
    play(env, say, index=CHAIN)
    assert env.last_score.diagnostics["expert"] == expert


def test_one_sub_agent_may_do_the_whole_question() -> None:
    env = research()
    steps = [f'search("{FIRST}")\nsearch("{SECOND}")', "Druvik"]
    say = main_says(
        'ask("reader", "The home of the teacher of Greta Stakel")', "Druvik", sub=lambda a, h: steps[len(h) // 2]
    )
    assert play(env, say, index=CHAIN)[0] == pytest.approx({"agent_0": 1.0, "agent_1": 1.0})


def test_asking_again_for_the_same_is_redundant() -> None:
    env = research()
    play(env, env.script("ask_everything"), index=CHAIN)
    assert env.last_score.diagnostics["redundancy"] == 0.75
    assert env.last_score.diagnostics["retrieval_hit"] == 1.0


def test_a_judge_may_say_what_a_report_is_worth() -> None:
    prompts: list[str] = []

    def judge(prompt: str, number: int) -> str:
        prompts.append(prompt)
        return "I give it 7 of 10." if number else "very good"

    say = main_says(ASK, ASK, "x", sub=lambda agent, history: "somebody")
    rewards, _ = play(research(expert=judge), say)
    assert rewards["agent_1"] == pytest.approx(0.1 + 0.5 * 0.7)
    assert "It reports: somebody" in prompts[0]
    with pytest.warns(UserWarning, match="'fine'"):
        silent, _ = play(
            research(expert=lambda prompt, number: "fine"), main_says(ASK, "x", sub=lambda agent, history: "somebody")
        )
    assert math.isnan(silent["agent_1"])
    assert silent["agent_0"] == pytest.approx(0.1)


# --- copies and options -----------------------------------------------------------------------------------------------


def test_costs_are_paid_by_main_alone() -> None:
    env = research(cost_per_invocation=0.05, cost_per_turn=0.01)
    rewards, _ = play(env, env.script("optimal"), index=CHAIN)
    assert rewards == pytest.approx({"agent_0": 1 - 0.05 * 2 - 0.01 * 7, "agent_1": 1.0, "agent_2": 1.0})
