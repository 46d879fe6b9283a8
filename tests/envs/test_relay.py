"""relay-v0: who is told the word, what the listener's text earns, and under which protocol it can know."""

from __future__ import annotations

from collections import Counter

import pytest
from tasks import references

import llm_dec_pomdp
from llm_dec_pomdp.envs.relay import NOTHING, WORDS
from llm_dec_pomdp.envs.wrappers import with_protocol


@pytest.mark.parametrize("n_agents", [2, 3, 4, 5])
def test_every_speaker_knows_every_word_equally_often_and_nobody_else_does(n_agents: int) -> None:
    env = llm_dec_pomdp.make("relay-v0", n_agents=n_agents)
    known: Counter[tuple[str, str]] = Counter()
    for item in env.items:
        observations, _ = env.reset(options={"task_id": item.id})
        word = item.fields["word"]
        [knowing] = [agent for agent, text in observations.items() if word in text]
        assert knowing == env.knowing(item) != env.possible_agents[-1]
        known[knowing, word] += 1
    assert known == {(f"agent_{i}", word): 12 // (n_agents - 1) for i in range(n_agents - 1) for word in WORDS}


@pytest.mark.parametrize(
    ("word", "earned"),
    [("blue", 1.0), (" Blue\n", 1.0), ("red", 0.0), ("blue or red", 0.0), ("", 0.0), (NOTHING, 0.0)],
)
def test_the_listener_alone_is_paid_for(word: str, earned: float) -> None:
    env = llm_dec_pomdp.make("relay-v0")
    env.reset(options={"task_id": "relay/blue/1"})
    _, rewards, *_ = env.step({"agent_0": "blue", "agent_1": "blue", "agent_2": word})
    assert set(rewards.values()) == {earned}


def test_the_listener_hears_the_word_where_agents_hear_each_other() -> None:
    for protocol, heard in (("parallel", False), ("sequential", True), ("discussion", True)):
        env = with_protocol(llm_dec_pomdp.make("relay-v0"), protocol)
        env.reset(options={"task_id": "relay/green/0"})
        while env.agents and env.turn < env.max_turns - 1:
            env.step(dict.fromkeys(env.agents, "green"))
        assert ("green" in env.history("agent_2")[-1].text) == heard


def test_the_best_joint_action_is_right_for_every_task() -> None:
    env = llm_dec_pomdp.make("relay-v0", n_agents=4)
    for item in env.items:
        gold = references(env, item)
        assert env.score(item, gold).total == 1.0
        assert sorted(gold.values()) == sorted([item.fields["word"]] * 2 + [NOTHING] * 2)
