"""research-v0 for one agent that has the tools itself."""

from __future__ import annotations

from typing import Any

import pytest
from teams import play, research

from llm_dec_pomdp.envs.hierarchy.research.questions import Hop, hops_of
from llm_dec_pomdp.envs.wrappers import with_protocol

CHAIN = 1  # an embedded question of two steps: the author, then the birthplace


def sub_of(env: Any) -> Any:
    return env.script("optimal")


def test_one_agent_with_the_tools_earns_the_same_for_the_same_work() -> None:
    env = research().alone()
    env.reset(options={"index": CHAIN})
    steps = ["SEARCH: Who wrote Horwin by Night?", "SEARCH: In which town was Tilda Harvik born?"]
    texts = [*steps, f"ANSWER: {env.item.fields['answer']}"]
    rewards, _ = play(env, lambda agent, history: texts[len(history) // 2], index=CHAIN)
    assert rewards == pytest.approx({"agent_0": 1.0})
    assert "Tilda Harvik" in env.history("agent_0")[2].text
    unread, _ = play(env, lambda agent, history: texts[-1], index=CHAIN)
    assert unread == pytest.approx({"agent_0": 0.1})


def test_one_agent_with_options_writes_its_own_notes() -> None:
    env = research(grammar="choice").alone()
    hops = hops_of(env.items[CHAIN])
    assert hops == (Hop("author", "Horwin by Night"), Hop("birthplace", "", 0))
    env.reset(seed=0, options={"index": CHAIN})
    for wanted in ("Who wrote Horwin by Night?", "In which town was Tilda Harvik born?"):
        options = env.history("agent_0")[-1].text
        env.step({"agent_0": "A" if f"A: {wanted}" in options else "B"})
        env.step({"agent_0": "Tilda Harvik." if "wrote" in wanted else "There."})
    env.step({"agent_0": "C"})
    rewards = env.step({"agent_0": env.item.fields["answer"]})[1]
    assert rewards == pytest.approx({"agent_0": 1.0})


@pytest.mark.parametrize("grammar", ["free", "choice"])
def test_a_limited_context_shows_the_last_words_alone(grammar: str) -> None:
    env = research(grammar=grammar, context=5).alone()
    env.reset(seed=0, options={"index": CHAIN})
    before = len(env.history("agent_0")[-1].text.split())
    env.step({"agent_0": "SEARCH: Horwin by Night" if grammar == "free" else "A"})
    if grammar == "choice":
        env.step({"agent_0": "I note a good many words here"})
        assert "Found: a good many words here\n" in env.history("agent_0")[-1].text
    else:
        assert len(env.history("agent_0")[-1].text.split()) == before + 5
    assert len(env.history("agent_0")) == 1


def test_single_is_one_agent_with_the_tools() -> None:
    env = with_protocol(research(), "centralized")
    assert [env.role(agent) for agent in env.possible_agents] == ["solo"]
    assert [tool.name for tool in env.tools("agent_0")] == ["search", "read", "answer", "stop"]


def test_the_letters_are_all_that_main_may_choose_from() -> None:
    env = research(grammar="choice")
    env.reset(seed=0)
    assert env.choices("agent_0", env.history("agent_0")) == ("A", "B", "C")
    env.step({"agent_0": "C"})
    assert not env.choices("agent_0", env.history("agent_0"))
