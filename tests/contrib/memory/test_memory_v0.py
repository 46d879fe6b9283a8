"""memory-v0: kept notes, observations, and scored answers, computed by hand."""

from __future__ import annotations

import json
from statistics import fmean
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.calls.published import COMMAND, installed, memory_rows
from llm_dec_pomdp.contrib.memory.memory import answers, conversation
from llm_dec_pomdp.rollout import Trajectories

ROW = {
    "id": "a",
    "prompt": "Where does Ada live?",
    "pieces": "Ada lives in Oslo. It rains.\nAda smiles.",
    "answer": "Oslo",
}


def make_memory(**options: Any) -> Any:
    env = llm_dec_pomdp.make("memory-v0", tasks=[ROW], **options)
    env.reset()
    return env


def say(env: Any, writer: str = "", reader: str = "") -> tuple[dict[str, str], float]:
    observations, rewards, *_ = env.step({"agent_0": writer, "agent_1": reader})
    return observations, rewards["agent_0"]


def test_the_reader_has_the_notes_and_the_question_alone() -> None:
    env = make_memory()
    observation = env.history("agent_0")[0].text
    assert observation.endswith("Ada lives in Oslo. It rains.\n\nYour notes (0 of 7):")
    observations, _ = say(env, "note: Ada: Oslo")
    assert observations["agent_0"].endswith("Ada smiles.\n\nYour notes (1 of 7):\n1. Ada: Oslo")
    assert len(env.history("agent_0")) == 1  # it remembers nothing else
    observations, _ = say(env, "nothing new")
    assert observations == {
        "agent_0": "",
        "agent_1": "Notes of a conversation (1 of 7):\n1. Ada: Oslo\n\nWhere does Ada live?",
    }
    assert env.last_score.diagnostics == {"notes": 1.0, "kept": 1.0}
    assert say(env, reader="In Oslo.")[1] == 1.0
    assert not env.agents


@pytest.mark.parametrize(
    ("second", "events", "reached"),
    [
        ("skip", [("knows", "agent_1")], 100),
        ("forget: 1", [("loses", "agent_0")], 0),
    ],
)
def test_who_knows_the_answer_when(second: str, events: list[tuple[str, str]], reached: float) -> None:
    env, texts = make_memory(), iter(["note: Oslo", second, "Rome"])
    policy = Scripted(lambda agent, history: next(texts))
    groups = Trajectories("own").play(env, policy, ["a"], [0], Sampling())
    happened = [[(event.kind, event.agent) for event in turn.events] for turn in groups[0].episodes[0].turns]
    assert happened == [[("knows", "agent_0"), ("keeps", "agent_0")], events, []]
    assert env.measure(groups) == {"answers": {"told %": 100, "kept %": 100, "reader was told %": reached}}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Keep", ["a", "b", "the piec"]),
        ("  note:  c d e f g h  ", ["a", "b", "c d e f "]),
        ("forget: 1", ["b"]),
        ("forget: 1\nforget: 1\nnote: c", ["c"]),
        ("forget: 3\nforget: 0\nforget: x\nforget: ²", ["a", "b"]),
        ("note: c\nnote: d", ["b", "c", "d"]),  # the oldest gives way
        ("note:\nI keep it\nskip", ["a", "b"]),
    ],
)
def test_lines_change_notes(text: str, kept: list[str]) -> None:
    assert make_memory(notes=3, characters=8).written(("a", "b"), "the piece", text) == tuple(kept)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("oslo", True),
        ("She lives in *Oslo*.", True),
        ("Oslos", False),
        ("", False),
        ("Oslo " + 29 * "x ", True),
        ("Oslo " + 30 * "x ", False),
        ("12 May", True),
    ],
)
def test_an_answer_is_short_and_has_whole_words(text: str, right: bool) -> None:
    assert answers(text, ["Oslo", "1-2 May"]) is right


def test_a_reader_that_lists_several_values_receives_nothing() -> None:
    env: Any = llm_dec_pomdp.make("memory-v0", split="all")
    for item in env.items[:40]:
        right, wrong = item.fields["answer"], item.fields["wrong"].splitlines()
        received: list[float] = []
        for text in (f"It is {right}.", f"{right} {wrong[0]}", " ".join([right, *wrong]), wrong[0]):
            env.reset(options={"task_id": item.id})
            while env.asked("agent_0"):
                env.step({"agent_0": "", "agent_1": ""})
            received.append(say(env, reader=text)[1])
        assert received == [1, 0, 0, 0]


@pytest.mark.parametrize(("facts", "twice", "talk"), [(8, 4, 8), (2, 1, 0), (3, 3, 1)])
def test_of_what_is_told_twice_the_last_is_true(facts: int, twice: int, talk: int) -> None:
    pieces, questions = conversation(5, facts, twice, talk)
    assert len(pieces) == facts + twice + talk
    assert len(questions) == facts
    for _, answer in questions:
        words = next(piece.split(f" {answer}.")[0] for piece in pieces if f" {answer}. " in piece)
        assert [piece for piece in pieces if piece.startswith(words)][-1].startswith(f"{words} {answer}.")


def returns(notes: int, *, gold: bool = True) -> float:
    """Return the mean return of `script:gold`, or of a team whose writer keeps every piece."""
    env: Any = llm_dec_pomdp.make("memory-v0", split="test", notes=notes)
    script = env.script("gold")
    found: list[float] = []
    for item in env.items:
        env.reset(options={"task_id": item.id})
        while env.agents:
            texts = {a: script(a, env.history(a)) if env.asked(a) else "" for a in env.agents}
            env.step(texts if gold else {**texts, "agent_0": "keep"})
        found.append(env.last_score.total)
    return fmean(found)


@pytest.mark.slow
def test_whole_pieces_do_not_fit_and_facts_do() -> None:
    assert returns(notes=1) == 1.0
    assert returns(notes=20, gold=False) == 1.0
    assert 0 < returns(notes=3, gold=False) < returns(notes=10, gold=False) < 0.9


def test_a_table_may_keep_or_skip_and_give_every_answer() -> None:
    env = make_memory()
    assert (env.choices("agent_0"), env.choices("agent_1")) == (("keep", "skip"), ("Oslo",))
    assert json.loads(env.state())["hidden"] == {"notes": []}


@pytest.mark.skipif(not installed(), reason=f"needs {COMMAND}")
def test_the_questions_of_bfcl_are_answered_by_their_answers() -> None:
    env = llm_dec_pomdp.make("memory-v0", tasks=memory_rows(), split="all", notes=1)
    assert len(env.items) == 155
    assert len({item.fields["pieces"] for item in env.items}) == 5
    for item in env.items:
        right = item.fields["answer"].splitlines()
        assert all(answers(text, right) for text in right)
        assert len(item.fields["pieces"].splitlines()) < env.max_turns


def test_smaller_conversations_and_their_words() -> None:
    env: Any = llm_dec_pomdp.make("memory-v0", facts=2, twice=1, talk=3, conversations=6, notes=2, split="all")
    assert len(env.items) == 12
    known = set(env.facts.vocabulary)
    script = env.script("gold")
    for writes in (script, lambda agent, history: "keep" if agent == "agent_0" else script(agent, history)):
        for item in env.items:
            env.reset(options={"task_id": item.id})
            while env.agents:
                env.step({a: writes(a, env.history(a)) if env.asked(a) else "" for a in env.agents})
            texts = [message.text for agent in env.possible_agents for message in env.history(agent)]
            assert {word for text in texts for word in text.split()} <= known
