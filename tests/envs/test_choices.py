"""A choice among offered texts, on the smallest task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import toy

from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.scripted import Scripted
from llm_dec_pomdp.envs.wrappers import Choices, with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Completion, Episode, Group, TaskItem, Turn


def offers(item: TaskItem, role: str) -> Mapping[str, str]:
    """The reference and two wrong texts for the asker; nothing for the answerer."""
    return {"right": item.reference[0], "wrong": "no", "long": "no\nand no"} if role == "asker" else {}


def references(item: TaskItem, role: str) -> Mapping[str, str]:
    """The reference and a wrong text for both roles."""
    return {"right": item.reference[role != "asker"], "wrong": "no"}


def letter(env: Choices, kind: str) -> str:
    """The letter of the asker that stands for a kind, in the first task."""
    item = env.items[0]
    text = offers(item, "asker")[kind]
    return next(letter for letter, offered in env.lettered(item, "agent_0").items() if offered == text)


def test_a_letter_is_the_text_and_other_texts_stay() -> None:
    env = Choices(toy.toy(), offers)
    assert env.choices("agent_0") == ("A", "B", "C") and env.choices("agent_1") == ()
    observations, _ = env.reset(options={"index": 0})
    assert "secret-0a" in str(observations["agent_0"]) and "A:" not in str(observations["agent_1"])
    for action, reward in ((letter(env, "right"), 2.0), (letter(env, "wrong"), 1.0), ("secret-0a", 2.0), ("Z", 1.0)):
        env.reset(options={"index": 0})
        _, rewards, *_ = env.step({"agent_0": action, "agent_1": "secret-0b"})
        assert set(rewards.values()) == {reward}


def test_the_script_of_the_task_plays_under_the_offer() -> None:
    env = Choices(toy.toy(), offers)
    [group] = Trajectories().play(env, Scripted(env.script("gold")), ["t0"], [0], Sampling())
    assert group.episodes[0].total == 2.0


def test_one_agent_that_writes_all_parts_may_use_letters() -> None:
    env = with_protocol(Choices(toy.toy(), offers), "centralized")
    inner = env.env
    assert isinstance(inner, Choices)
    env.reset(options={"index": 0})
    _, rewards, *_ = env.step({"agent_0": f"[asker]\n{letter(inner, 'right')}\n[answerer]\nsecret-0b"})
    assert set(rewards.values()) == {2.0}


def test_a_single_agent_chooses_for_each_agent_in_turn() -> None:
    env = with_protocol(Choices(toy.toy(), references), "centralized")
    observations, _ = env.reset(options={"index": 0})
    texts: list[str] = []
    for role, reward in (("asker", 0.0), ("answerer", 2.0)):
        assert str(observations["agent_0"]).startswith(f"[{role}]\nquestion 0, {role}?")
        assert tuple(env.choices("agent_0", env.history("agent_0"))) == ("A", "B")
        texts.append("A" if "A:\nsecret" in str(observations["agent_0"]) else "B")
        observations, rewards, *_ = env.step({"agent_0": texts[-1]})
        assert rewards["agent_0"] == reward
    players = iter(texts)
    [group] = Trajectories().play(env, Scripted(lambda agent, history: next(players)), ["t0"], [0], Sampling())
    shares = env.measure([group])["choices"]
    assert shares["asker: right %"] == shares["answerer: right %"] == 100


def test_rows_without_texts_are_left_out() -> None:
    env = Choices(toy.toy(), lambda item, role: offers(item, role) if item.id == "t1" else {})
    assert [item.id for item in env.items] == ["t1"]


def test_the_task_measures_the_chosen_texts() -> None:
    class Measured(toy.Toy):
        def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
            texts = [episode.last_texts["agent_0"] for group in groups for episode in group.episodes]
            return {"texts": dict.fromkeys(texts, 1.0)}

    env = Choices(Measured(toy.ITEMS), offers)
    turn = Turn({}, {"agent_0": Completion(letter(env, "right")), "agent_1": Completion("idea")}, 0.0)
    assert env.measure([Group("t0", (Episode("t0", 0, (turn,), True),))])["texts"] == {"secret-0a": 1.0}


def test_the_shares_of_the_kinds_are_measured() -> None:
    env = Choices(toy.toy(), offers)
    texts = (letter(env, "right"), letter(env, "wrong"), "something", letter(env, "right"))
    turns = [Turn({}, {"agent_0": Completion(text), "agent_1": Completion("idea")}, 0.0) for text in texts]
    group = Group("t0", tuple(Episode("t0", 0, (turn,), True) for turn in turns))
    shares = env.measure([group])["choices"]
    assert shares["asker: right %"] == 50 and shares["asker: wrong %"] == 25 and shares["asker: other %"] == 25


def test_offers_that_cannot_be_lettered_are_refused() -> None:
    with pytest.raises(ValueError, match="no two equal"):
        Choices(toy.toy(), lambda item, role: {"a": "x", "b": "x"})
    with pytest.raises(ValueError, match="different numbers"):
        Choices(toy.toy(), lambda item, role: {str(n): str(n) for n in range(1 + (item.id == "t0"))})
    with pytest.raises(TypeError, match="wraps a task"):
        Choices(with_protocol(toy.toy(), "sequential"), offers)
