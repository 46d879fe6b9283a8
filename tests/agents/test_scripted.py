from __future__ import annotations

import pytest
from models import match

from llm_dec_pomdp.agents import RandomText, Replay, Request, Sampling, Scripted
from llm_dec_pomdp.agents.human import Human
from llm_dec_pomdp.types import conversation

SAMPLING = Sampling()


def texts(policy: Scripted | RandomText | Replay | Human, *requests: Request) -> list[list[str]]:
    return [[c.text for c in answer] for answer in policy.generate(requests, SAMPLING)]


def test_scripted_is_told_agent_and_history_and_answers_once_per_seed() -> None:
    policy = Scripted(lambda agent, history: f"{agent}: {' / '.join(m.text for m in history)}")
    answers = texts(policy, Request("a", conversation("x", "y", "z"), (1, 2)), Request("b", conversation("x"), (3,)))
    assert answers == [["a: x / y / z"] * 2, ["b: x"]]


def test_scripted_has_no_tokens_to_train_on() -> None:
    [[completion]] = Scripted(lambda agent, history: "x").generate([Request("a", conversation("x"))], SAMPLING)
    assert completion.token_ids == completion.logprobs == completion.prompt_ids == ()


def test_random_text_depends_on_nothing_but_the_seed() -> None:
    [completions] = texts(RandomText(), Request("a", conversation("x"), tuple(range(20))))
    assert len(set(completions)) == 20
    assert texts(RandomText(), Request("b", conversation("y"), (1, 2)), Request("b", conversation("z"), (7,)))[1] == [
        completions[7]
    ]


def test_replay_repeats_in_order_for_every_agent_and_leaves_the_recording_alone() -> None:
    recording = {"a": ["one", "two"], "b": ["three"]}
    policy = Replay(recording)
    assert texts(policy, Request("a", conversation("x")), Request("b", conversation("x"))) == [["one"], ["three"]]
    assert texts(policy, Request("a", conversation("x"))) == [["two"]]
    assert recording == {"a": ["one", "two"], "b": ["three"]}


@pytest.mark.parametrize("agent", ["a", "nobody"])
def test_replay_refuses_when_it_runs_out(agent: str) -> None:
    policy = Replay({"a": []})
    with pytest.raises(IndexError, match=f"'{agent}'"):
        texts(policy, Request(agent, conversation("x")))


def test_gold_recognises_the_task_by_the_first_observation() -> None:
    env = match()
    policy = Scripted(env.script("gold"))
    requests = [
        Request(agent, conversation(env.observe(env.items[2], agent), "earlier", "revise"), (1, 2))
        for agent in env.possible_agents
    ]
    assert texts(policy, *requests) == [["red", "red"], ["red", "red"]]


def test_gold_names_what_it_does_not_know() -> None:
    with pytest.raises(KeyError, match=r"'agent_0'.*a strange task"):
        texts(Scripted(match().script("gold")), Request("agent_0", conversation("a strange task")))


def test_a_person_is_asked_for_every_sample_with_the_last_observation() -> None:
    asked: list[tuple[str, str]] = []

    def ask(agent: str, observation: str) -> str:
        asked.append((agent, observation))
        return f"answer {len(asked)}"

    assert texts(Human(ask), Request("a", conversation("old", "action", "new"), (1, 2))) == [["answer 1", "answer 2"]]
    assert asked == [("a", "new"), ("a", "new")]
