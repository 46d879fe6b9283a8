"""The course of a question: who is asked, told, paid; and texts that nobody hopes for."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from teams import main_says, play, research

from llm_dec_pomdp.envs.check import LAWS, check_env
from llm_dec_pomdp.envs.wrappers import FixedRoster
from llm_dec_pomdp.seeding import uniforms

CHAIN = 1  # an embedded question of two steps: the author, then the birthplace


def sub_of(env: Any) -> Any:
    return env.script("optimal")


@pytest.mark.parametrize("options", [{"grammar": "choice", "context": 20}, {"specialists": ["people", "works"]}])
def test_every_option_keeps_every_law(options: dict[str, Any]) -> None:
    assert check_env(research(**options), rows=1) == list(LAWS)


@pytest.mark.parametrize(("grammar", "context"), [("free", None), ("choice", 20)])
def test_the_same_for_one_agent_keeps_every_law(grammar: str, context: int | None) -> None:
    assert check_env(research(grammar=grammar, context=context).alone(), rows=1) == list(LAWS)


def test_several_are_asked_at_once_and_main_waits_for_all() -> None:
    env = research()
    env.reset(options={"index": CHAIN})
    env.step({"agent_0": "ASK sub: Who wrote Horwin by Night?\nASK sub: Where is it set?"})
    assert env.agents == ["agent_0", "agent_1", "agent_2"]
    assert [env.asked(agent) for agent in env.agents] == [False, True, True]
    assert "agent_0" not in env.history("agent_1")[0].text
    env.step({"agent_0": "", "agent_1": "REPORT: me first", "agent_2": "SEARCH: Horwin"})
    assert [env.asked(agent) for agent in env.agents] == [False, False, True]
    env.step({"agent_0": "", "agent_1": "", "agent_2": "REPORT: me second"})
    last = env.history("agent_0")[-1]
    assert (last.role, last.name) == ("tool", "ask")
    assert (
        "me first" in last.text
        and "me second" in last.text
        and "Horwin by" not in last.text.replace("Who wrote Horwin by", "")
    )


def test_main_never_sees_a_passage() -> None:
    env = research()
    quiet = main_says(
        "ASK sub: Who wrote Horwin by Night?",
        "STOP",
        sub=lambda agent, history: "SEARCH: Horwin by Night" if len(history) == 1 else "REPORT: I will not say",
    )
    play(env, quiet, index=CHAIN)
    assert len(env.history("agent_1")) == 4
    assert not [p.text for p in corpus_of(env) if any(p.text in m.text for m in env.history("agent_0"))]


def corpus_of(env: Any) -> Any:
    from llm_dec_pomdp.envs.hierarchy.research.corpus import corpus

    return corpus(env.item.fields["corpus"]).passages


def test_what_happened_is_told_by_events() -> None:
    env = research()
    _, events = play(env, sub_of(env), index=CHAIN)
    kinds = [(event.kind, event.agent) for event in events]
    one = ["spawn", "call", "result", "return"]
    assert kinds == [*((k, "agent_1") for k in one), *((k, "agent_2") for k in one), ("answer", "agent_0")]
    assert dict(events[0].details) == {"role": "sub", "by": "agent_0", "subtask": "Who wrote Horwin by Night?"}
    assert events[1].details["tool"] == "search"


def test_a_specialist_finds_its_part_alone() -> None:
    env = research(specialists=["people+towns", "companies+works"])
    assert [env.role(agent) for agent in env.possible_agents] == ["main"] + ["people+towns"] * 4 + [
        "companies+works"
    ] * 4

    def blind(agent: str, history: Any) -> str:
        return "SEARCH: Who wrote Horwin by Night?" if len(history) == 1 else "REPORT: nothing"

    _, events = play(env, main_says("ASK people+towns: a\nASK companies+works: b", "STOP", sub=blind), index=CHAIN)
    found = {event.agent: event.details["output"] for event in events if event.kind == "result"}
    assert "Horwin by Night" in found["agent_5"]
    assert "Horwin by Night" not in found["agent_1"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no line"),
        ("I think it is Ada.", "no line"),
        ("ASK nobody: who?", "nobody is called 'nobody'"),
        ("\n".join(["ASK sub: who?"] * 5), "5 sub-agents are asked and 4 may be"),
        ("SEARCH: Horwin", "no line"),
        ('<tool_call>{"name": "ask", "arguments": "x"}</tool_call>', "no line"),
        ("<tool_call>" * 1000, "no line"),
        ('<tool_call>{"name": ["ask"], "arguments": {}}</tool_call>', "no line"),
        ('<tool_call>{"name": "answer", "arguments": ' + "[" * 99_999 + "</tool_call>", "no line"),
    ],
)
def test_a_text_that_fits_nothing_ends_the_question_and_earns_nothing(text: str, why: str) -> None:
    env = research()
    rewards, events = play(env, main_says(text, sub=sub_of(env)))
    assert rewards == {"agent_0": 0.0}
    assert why in env.last_score.notes["main"]
    assert [event.kind for event in events] == ["stop"]


def test_asking_beyond_the_limit_earns_main_nothing_and_the_others_what_they_found() -> None:
    env = research(max_invocations=1)
    rewards, _ = play(
        env, main_says("ASK sub: Who wrote Horwin by Night?", "ASK sub: Who?", sub=sub_of(env)), index=CHAIN
    )
    assert rewards == pytest.approx({"agent_0": 0.0, "agent_1": 0.6})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('<tool_call>\n{"name": "ask", "arguments": {"to": "sub", "subtask": "Who wrote it?"}}\n</tool_call>', 1),
        ('{}<tool_call>{"name": "ask", "arguments": "{\\"subtask\\": \\"Who?\\"}"}</tool_call>', 1),
        ('<tool_call>{"name": "ask", "arguments": {"to": "sub", "subtask": "a"}}</tool_call>' * 2, 2),
        ("Let me think.\nASK sub: Who wrote it?\nThat will do.", 1),
        ("ASK: Who wrote it?", 1),
        ("  ASK Sub : Who wrote it?", 1),
    ],
)
def test_calls_and_lines_ask(text: str, named: int) -> None:
    env = research()
    env.reset(seed=0)
    env.step({"agent_0": text})
    assert len(env.agents) == 1 + named


def test_a_sub_agent_that_loops_is_sent_home() -> None:
    env = research()
    rewards, events = play(env, main_says("ASK sub: who?", "ANSWER: x", sub=lambda agent, history: "SEARCH: who"))
    assert sum(event.kind == "call" for event in events) == 6
    assert rewards == pytest.approx({"agent_0": 0.1, "agent_1": 0.0})


@pytest.mark.parametrize("text", ["x" * 1_000_000, "Ada " * 250_000, "\ud800\n" * 1000, ""])
def test_a_sub_agent_that_floods_or_says_nothing_hurts_itself_alone(text: str) -> None:
    env = research()
    rewards, _ = play(env, main_says("ASK sub: who?", "ANSWER: x", sub=lambda agent, history: text))
    assert rewards == pytest.approx({"agent_0": 0.1, "agent_1": 0.0})
    assert len(env.history("agent_0")[-2].text) < 1000


def test_a_report_of_the_whole_corpus_is_cut_and_paid() -> None:
    env = research()
    env.reset(options={"index": CHAIN})
    everything = " ".join(passage.text for passage in corpus_of(env))
    rewards, _ = play(
        env, main_says("ASK sub: who?", "ANSWER: x", sub=lambda a, h: f"REPORT: {everything}"), index=CHAIN
    )
    assert rewards["agent_1"] == pytest.approx(0.1)
    assert "[cut after 60 words]" in env.history("agent_0")[-2].text
    assert len(env.history("agent_0")[-2].text.split()) < 90


def test_time_that_runs_out_terminates_and_pays_what_was_reported() -> None:
    env = research(max_turns=4)
    rewards, _ = play(env, main_says("ASK sub: Who wrote Horwin by Night?", "ASK sub: x", sub=sub_of(env)), index=CHAIN)
    assert env.latest.transition.terminated
    assert rewards == pytest.approx({"agent_0": 0.0, "agent_1": 0.6})


# --- truth ------------------------------------------------------------------------------------------------------------


def test_a_right_answer_over_a_wrong_chain_is_not_correct() -> None:
    env = research()
    env.reset(options={"index": CHAIN})
    answer = env.item.fields["answer"]
    rewards, _ = play(env, main_says(f"ANSWER: {answer}", sub=sub_of(env)), index=CHAIN)
    assert rewards["agent_0"] == pytest.approx(0.1)
    assert env.last_score.diagnostics["right"] == 1.0
    assert env.last_score.diagnostics["support"] == 0.0


def test_an_answer_that_names_two_values_is_wrong() -> None:
    env = research()
    env.reset(options={"index": CHAIN})
    answer = env.item.fields["answer"]
    for other, right in (("", 1.0), (" or Stellen", 0.0)):
        play(env, main_says(f"ANSWER: {answer}{other}", sub=sub_of(env)), index=CHAIN)
        assert env.last_score.diagnostics["right"] == right


@pytest.mark.parametrize(
    ("report", "expert"),
    [
        ("Tilda Harvik.", 1.0),
        ("It was Tilda Harvik, of Horwin by Night.", 1.0),
        ("Tilda Harvik or Leo Dorzel.", 0.0),
        ("Leo Dorzel.", 0.0),
        ("Somebody.", 0.0),
    ],
)
@pytest.mark.parametrize("query", ["SEARCH: Who wrote Horwin by Night?", "SEARCH: Stellen"])
def test_a_report_is_good_when_it_holds_what_was_asked_by_what_was_retrieved(
    report: str, expert: float, query: str
) -> None:
    def sub(agent: str, history: Any) -> str:
        return query if len(history) == 1 else f"REPORT: {report}"

    env = research()
    play(env, main_says("ASK sub: Who wrote Horwin by Night?", "STOP", sub=sub), index=CHAIN)
    assert env.last_score.diagnostics["expert"] == (expert if "wrote" in query else 0.0)


def test_one_sub_agent_may_do_the_whole_question() -> None:
    env = research()
    env.reset(options={"index": CHAIN})
    question, answer = env.item.prompt, env.item.fields["answer"]
    steps = ["SEARCH: Who wrote Horwin by Night?", "SEARCH: In which town was Tilda Harvik born?", f"REPORT: {answer}"]
    say = main_says(f"ASK sub: {question}", f"ANSWER: {answer}", sub=lambda a, h: steps[len(h) // 2])
    assert play(env, say, index=CHAIN)[0] == pytest.approx({"agent_0": 1.0, "agent_1": 1.0})


def test_asking_again_for_the_same_is_redundant() -> None:
    env = research()
    play(env, env.script("ask_everything"), index=CHAIN)
    assert env.last_score.diagnostics["redundancy"] == 0.5
    assert env.last_score.diagnostics["retrieval_hit"] == 1.0


def test_a_judge_may_say_what_a_report_is_worth() -> None:
    prompts: list[str] = []

    def judge(prompt: str, number: int) -> str:
        prompts.append(prompt)
        return "I give it 7 of 10." if number else "very good"

    env = research(expert=judge)
    rewards, _ = play(env, main_says("ASK sub: who?", "STOP", sub=lambda a, h: "REPORT: somebody"))
    assert rewards["agent_1"] == pytest.approx(0.1 + 0.5 * 0.7)
    assert "It reports: somebody" in prompts[0]
    with pytest.warns(UserWarning, match="the judge gave no number in 3 tries: it said 'fine'"):
        silent, _ = play(
            research(expert=lambda prompt, number: "fine"),
            main_says("ASK sub: who?", "STOP", sub=lambda a, h: "REPORT: somebody"),
        )
    assert math.isnan(silent["agent_1"])
    assert silent["agent_0"] == pytest.approx(0.1)


# --- the grammar "choice" ---------------------------------------------------------------------------------------------


def test_the_prompts_are_as_published_on_the_page() -> None:
    env = research(grammar="choice")
    env.reset(seed=0, options={"index": CHAIN})
    lines = env.history("agent_0")[-1].text.split("\n")
    assert lines[0] == f"Question: {env.item.prompt}"
    assert lines[1] == "Found: nothing"
    assert [line[:3] for line in lines[2:5]] == ["A: ", "B: ", "C: "]
    assert lines[4:] == ["C: answer now", "Reply with one letter, A, B or C."]
    letter = "A" if lines[2] == "A: Who wrote Horwin by Night?" else "B"
    env.step({"agent_0": f" {letter}) the first"})
    *passages, asked = env.history("agent_1")[-1].text.split("\n")
    assert asked == "Who wrote Horwin by Night? Answer in one short sentence."
    assert len(passages) == 2
    env.step({"agent_0": "", "agent_1": "Tilda Harvik wrote it."})
    assert "\nFound: Tilda Harvik wrote it.\n" in env.history("agent_0")[-1].text
    assert len(env.history("agent_0")) == 1  # each prompt is told whole
    env.step(dict.fromkeys(env.agents, "C"))
    assert env.history("agent_0")[-1].text == f"Tilda Harvik wrote it.\n{env.item.prompt} Answer in one short sentence."


def test_the_order_of_the_options_follows_from_the_seed() -> None:
    env = research(grammar="choice")
    prompts = [env.reset(seed=seed, options={"index": CHAIN})[0]["agent_0"] for seed in range(20)]
    assert {"A: Who wrote Horwin by Night?" in prompt for prompt in prompts} == {True, False}
    assert env.reset(seed=3, options={"index": 1})[0] == env.reset(seed=3, options={"index": 1})[0]


def test_a_wrong_report_leads_to_questions_about_it() -> None:
    env = research(grammar="choice")
    env.reset(seed=0, options={"index": CHAIN})
    text = env.history("agent_0")[-1].text
    env.step({"agent_0": "A" if "A: Who wrote Horwin" in text else "B"})
    env.step({"agent_0": "", "agent_1": "Leo Dorzel."})
    assert "In which town was Leo Dorzel born?" in env.history("agent_0")[-1].text


@pytest.mark.parametrize("text", ["D", "", "the first", "é", "1"])
def test_no_letter_is_invalid(text: str) -> None:
    rewards, _ = play(research(grammar="choice"), main_says(text, sub=lambda a, h: ""))
    assert rewards == {"agent_0": 0.0}


def test_a_main_that_always_delegates_answers_when_nobody_is_left() -> None:
    env = research(grammar="choice", max_invocations=2)
    rewards, _ = play(env, main_says("A", "A", "Nobody knows.", sub=lambda a, h: "Perhaps."), index=CHAIN)
    assert rewards["agent_0"] == pytest.approx(0.1)
    assert len(rewards) == 3


# --- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grammar", ["free", "choice"])
def test_forks_and_pickles_go_on_alike_from_the_middle(grammar: str) -> None:
    env = research(grammar=grammar)
    say = env.script("optimal")
    env.reset(seed=3, options={"index": 2})
    for _ in range(3):
        env.step({a: say(a, env.history(a)) if env.asked(a) else "" for a in env.agents})
    copies = [env.fork(), pickle.loads(pickle.dumps(env)), env]
    ends = []
    for one in copies:
        while one.agents:
            result = one.step({a: say(a, one.history(a)) if one.asked(a) else "" for a in one.agents})
        ends.append((result, one.state()))
    assert ends[0] == ends[1] == ends[2]


def test_a_fixed_roster_has_everybody_until_the_end() -> None:
    env = FixedRoster(research())
    say = env.unwrapped.script("optimal")
    env.reset(seed=0, options={"index": CHAIN})
    while env.agents:
        assert env.agents == env.possible_agents
        own = env.unwrapped
        _, rewards, *_ = env.step({a: say(a, own.history(a)) if own.asked(a) else "" for a in env.agents})
    assert rewards == pytest.approx({"agent_0": 1.0, "agent_1": 1.0, "agent_2": 1.0, "agent_3": 0.0, "agent_4": 0.0})


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grammar": "fre"}, "grammar is 'fre'; did you mean free"),
        ({"max_invocations": 0}, "max_invocations is 0; sub-agents may be asked 1 to 64 times"),
        ({"context": 0}, "context is 0; it counts words"),
        ({"cost_per_turn": -1}, "cost_per_turn is -1; a cost is finite and at least 0"),
        ({"specialists": "people"}, "specialists is 'people'; give a list"),
        ({"specialists": ["cities"]}, "no part 'cities'"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        research(**options)


def test_random_texts_never_break_it() -> None:
    words = ["ASK sub: x", "ANSWER: y", "STOP", "SEARCH: Horwin", "READ: 5", "READ: x", "REPORT: z", "A", "B", "C", "?"]
    for grammar in ("free", "choice"):
        env = research(grammar=grammar)
        low, high = env.facts.reward_range
        for seed in range(60):
            draws = iter(uniforms(seed, 400).tolist())
            rewards, _ = play(env, lambda a, h, d=draws: words[int(next(d) * len(words))], seed=seed, index=seed)
            assert all(low <= reward <= high for reward in rewards.values())
