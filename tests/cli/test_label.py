"""The command `label`: answers, resumes, what is kept, and that MADPO reads the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from servers import Server, reply
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.episodes import Header, TraceWriter
from llm_dec_pomdp.results.labels import LabelError, Labels
from llm_dec_pomdp.rollout import Preferences

ENV = llm_dec_pomdp.make("bandit-v0")


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Six recorded episodes of each of eight tasks."""
    place = tmp_path / "traces.jsonl"
    team = llm_dec_pomdp.load_team(ENV, "builtin:table")
    with TraceWriter(place) as writer:
        for group, item in zip(llm_dec_pomdp.collect(team, ENV, samples=6), ENV.items, strict=True):
            for episode in group.episodes:
                writer.write_episode(episode, Header.of(ENV), item)
    return place


def label(traces: Path, *answers: str, options: tuple[str, ...] = ()) -> Any:
    return CliRunner().invoke(app, ["label", str(traces), *options], input="".join(f"{a}\n" for a in answers))


def rows(traces: Path) -> list[dict[str, Any]]:
    file = traces.with_name("traces.jsonl.pairs.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines() if "answer" in json.loads(line)]


def test_answers_are_kept_one_by_one_and_the_next_call_resumes(traces: Path) -> None:
    first = label(traces, "what?", "a", "B", "back", "t", "skip", "q")
    assert first.exit_code == 0, first.output
    assert [row["answer"] for row in rows(traces)] == ["a", "tie", "skip"]
    assert "return" not in first.output
    second = label(traces, "b", "b")  # the input ends
    assert [row["answer"] for row in rows(traces)] == ["a", "tie", "skip", "b", "b"]
    assert "3 left" in second.output
    chosen = [row for row in rows(traces) if row["answer"] == "b"]
    assert {row["first"] for row in chosen} == {"rejected"}


def test_madpo_trains_on_the_file(traces: Path) -> None:
    answer = {"a": 0, "b": 0}
    labels = Labels(str(traces), traces.with_name("p.jsonl"), 15)
    right = {item.prompt: f"player acts: {item.fields['word']}" for item in ENV.items}
    for pair in labels.pairs:
        says = "a" if pair.texts[0] == right[pair.asked] else "b" if pair.texts[1] == right[pair.asked] else "tie"
        labels.answer({pair.id: says})
        answer[says] = answer.get(says, 0) + 1
    assert answer["a"] and answer["b"]  # in random order
    pairs = Preferences(str(labels.place)).pairs()
    assert set(pairs) == {item.id for item in ENV.items}
    assert sum(map(len, pairs.values())) == answer["a"] + answer["b"]
    assert all(pair.chosen.seed is not None for of_task in pairs.values() for pair in of_task)
    team = llm_dec_pomdp.load_team(ENV, "builtin:table")
    before = llm_dec_pomdp.evaluate(team, ENV, samples=20).return_percent.mean
    llm_dec_pomdp.train(team, ENV, "madpo", source=str(labels.place), steps=15, prompts_per_step=8)
    assert llm_dec_pomdp.evaluate(team, ENV, samples=20).return_percent.mean > before + 30


def test_answers_of_another_process_are_not_overwritten(traces: Path) -> None:
    one, other = (Labels(str(traces), traces.with_name("p.jsonl")) for _ in range(2))
    one.answer({one.pairs[0].id: "a"})
    with pytest.raises(LabelError, match="changed by another process"):
        other.answer({other.pairs[1].id: "b"})
    assert Labels(str(traces), one.place).answers == {one.pairs[0].id: "a"}


def test_answers_to_other_pairs_and_runs_without_pairs_are_refused(traces: Path, tmp_path: Path) -> None:
    label(traces, "a", "a", "a", "a", options=("--pairs", "3"))
    other = label(traces, "a", options=("--pairs", "3", "--seed", "1"))
    assert other.exit_code == 2
    assert "not chosen now" in other.output
    own = tmp_path / "own.jsonl"
    own.write_text('{"task": "bandit/0", "chosen": {"agent_0": "w1"}, "rejected": {"agent_0": "w2"}}')
    assert "is not an answer of `label`" in label(traces, "a", options=("--out", str(own))).output
    assert "chosen" in own.read_text()
    one = tmp_path / "one.jsonl"
    one.write_text(traces.read_text().splitlines()[0] + "\n")
    assert "no two different episodes" in label(one).output


def test_a_judge_answers_in_place_of_a_person(traces: Path, server: Server, tmp_path: Path) -> None:
    server.answer = lambda body, number: reply("1")  # prefers a place, so no text
    (tmp_path / "rules.txt").write_text("Be brief.")
    options = ("--judge", f"principles:{tmp_path / 'rules.txt'}", "--judge-model", f"{server.url}#m")
    done = label(traces, options=options)
    assert done.exit_code == 0, done.output
    assert {row["answer"] for row in rows(traces)} == {"tie"}
    assert "judge_first 1 " in done.output
    with pytest.raises(ValueError, match="has no preference"):
        Preferences(str(traces.with_name("traces.jsonl.pairs.jsonl")))
