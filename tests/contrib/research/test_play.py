"""The returns of scripted teams, choices by letter, and the credit of M-GRPO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from teams import main_says, play, research

from llm_dec_pomdp.envs.wrappers import with_protocol

ASK = 'ask("reader", "Who taught Greta Stakel?")'
CANDIDATES = pytest.mark.parametrize("candidates", [False, True])


@pytest.mark.slow
@CANDIDATES
def test_the_optimal_team_earns_the_maximum_on_every_question(candidates: bool) -> None:
    env = research(candidates=candidates, split="all")
    for index in range(len(env.items)):
        rewards, _ = play(env, env.script("optimal"), index=index)
        assert list(rewards.values()) == pytest.approx([1.0] * len(rewards))  # 0.1 + 0.4 + 0.5 for who was asked


@pytest.mark.slow
@pytest.mark.every(2)
@CANDIDATES
@pytest.mark.parametrize(
    ("name", "value", "options"),
    [
        ("optimal", 1.0, {"specialists": ["reader+analyst+calculator"]}),
        ("ask_everything", 1.0, {}),
        ("never_ask", 0.1, {}),
    ],
)
def test_other_teams_earn_their_value_on_every_kind_of_question(
    candidates: bool, name: str, value: float, options: dict[str, Any]
) -> None:
    env = research(candidates=candidates, split="test", **options)
    for index in range(20):
        assert play(env, env.script(name), index=index)[0]["agent_0"] == pytest.approx(value)


@pytest.mark.slow
def test_questions_are_chosen_by_what_they_need() -> None:
    env = research(needs=[1, 6])
    needed = [len(play(env, env.script("optimal"), index=index)[0]) - 1 for index in range(len(env.items))]
    assert sorted(set(needed)) == [1, 6]
    assert needed.count(6) == 12


# --- one agent --------------------------------------------------------------------------------------------------------


def test_one_agent_under_the_centralized_protocol_asks_itself_and_can_receive_the_maximum() -> None:
    env: Any = with_protocol(research(), "centralized")
    names = [tool.name for tool in env.tools("agent_0")]
    assert (env.possible_agents, names) == (["agent_0"], ["ask", "search", "read", "schema", "query", "python"])
    say = env.task.script("optimal")
    rewards: dict[str, float] = {}
    env.reset(options={"index": 7})
    while env.agents:
        [acting] = [agent for agent in env.env.agents if env.env.asked(agent)]
        assert env.history("agent_0")[-1].text.startswith(f"[{env.env.role(acting)}] ")
        _, rewards, *_ = env.step({"agent_0": say(acting, env.env.history(acting))})
    assert rewards == pytest.approx({"agent_0": 1.0})


# --- choices ----------------------------------------------------------------------------------------------------------


def test_a_letter_stands_for_a_call_of_the_right_or_the_wrong_kind_or_an_answer() -> None:
    env = research(candidates=True)
    env.reset(seed=0, options={"index": 7})
    assert env.choices("agent_0") == env.choices("agent_1") == ("A", "B", "C")
    question, options = env.history("agent_0")[-1].text.split("\n\n")
    assert question == f"Question: {env.item.prompt}"
    *lines, last = options.split("\n")
    assert last == "Choose A, B or C."
    env.step({"agent_0": f" {letter_of(lines, ASK)}) the first"})
    observation = env.history("agent_1")[-1].text
    env.step({"agent_0": "", "agent_1": letter_of(observation.split("\n"), 'search("Who taught Greta Stakel?")')})
    [message] = env.history("agent_1")  # each prompt is complete
    assert "] Edda Tader taught Greta Stakel.\n" in message.text and "\n\nA " in message.text


def letter_of(lines: Sequence[str], text: str) -> str:
    return next(line[0] for line in lines if line[2:] == text)


def test_the_order_of_the_options_follows_from_the_seed() -> None:
    env = research(candidates=True)
    prompts = [env.reset(seed=seed, options={"index": 7})[0]["agent_0"] for seed in range(20)]
    assert len(set(prompts)) == 3
    assert env.reset(seed=3, options={"index": 7})[0] == env.reset(seed=3, options={"index": 7})[0]


def test_a_wrong_report_leads_to_questions_about_it() -> None:
    env = research(candidates=True)
    env.reset(seed=0, options={"index": 17})  # How many inhabitants has the town in which Bruno Brunpel was born?
    right = env.script("optimal")
    env.step({"agent_0": right("agent_0", env.history("agent_0"))})
    env.step({"agent_0": "", "agent_1": right("agent_1", env.history("agent_1"))})
    reports = [line for line in env.history("agent_1")[-1].text.split("\n")[-4:-1] if not line.endswith(")")]
    wrong = next(line for line in reports if not line.endswith(" Horwin"))
    env.step({"agent_0": "", "agent_1": wrong[0]})
    assert f'ask("analyst", "How many inhabitants has {wrong[2:]}?")' in env.history("agent_0")[-1].text


@pytest.mark.parametrize("text", ["D", "", "the first", "é", "1"])
def test_no_letter_is_invalid(text: str) -> None:
    rewards, _ = play(research(candidates=True), main_says(text, sub=lambda a, h: ""))
    assert rewards == {"agent_0": 0.0}
