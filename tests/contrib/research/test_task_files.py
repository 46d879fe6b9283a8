"""Questions and corpora from task files, and rows of published data sets."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
from teams import main_says, play, research

from llm_dec_pomdp.contrib.research import corpus as corpora
from llm_dec_pomdp.envs.checks.check import CHECKS, check_env
from llm_dec_pomdp.envs.tasks import TaskError

PASSAGES = [
    {"text": "Marie Curie was born in Warsaw.", "title": "Marie Curie"},
    {"text": "She studied in Paris.", "title": "Marie Curie"},
    {"text": "Warsaw lies on the Vistula.", "title": "Warsaw"},
    {"text": "Paris lies on the Seine.", "title": "Paris"},
]
QUESTION = {"question": "On which river lies the birthplace of Marie Curie?", "answer": "the Vistula"}
HOTPOT = {  # the form of HotpotQA and 2WikiMultihopQA, with rows written for this test
    "_id": "5a7a",
    **QUESTION,
    "type": "bridge",
    "supporting_facts": [["Marie Curie", 0], ["Warsaw", 0]],
    "context": [
        ["Marie Curie", ["Marie Curie was born in Warsaw.", " She studied in Paris."]],
        ["Warsaw", ["Warsaw lies on the Vistula."]],
        ["Paris", ["Paris lies on the Seine."]],
    ],
}
AS_COLUMNS = {
    "supporting_facts": {"title": ["Marie Curie", "Warsaw"], "sent_id": [0, 0]},
    "context": {
        "title": [title for title, _ in HOTPOT["context"]],
        "sentences": [sentences for _, sentences in HOTPOT["context"]],
    },
}


def lines(*rows: Any) -> str:
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(name: str, *rows: Any) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lines(*rows), encoding="utf-8")
        return str(path)

    return write


def two_steps(agent: str, history: Any) -> str:
    """Act as a sub-agent that searches for its subtask and reports the first passage."""
    if len(history) == 1:
        return f'search("{history[0].text.splitlines()[0].removeprefix("Find out: ")}")'
    return history[-1].text.splitlines()[0].partition("] ")[2]


def solve(env: Any) -> Any:
    return play(
        env,
        main_says(
            'ask("reader", "birthplace born Curie")\nask("reader", "Warsaw lies river")',
            "On the Vistula.",
            sub=two_steps,
        ),
        index=0,
    )


@pytest.mark.slow
def test_a_file_with_a_corpus_beside_it_is_played(write: Callable[..., str]) -> None:
    write("texts.jsonl", *PASSAGES)
    env = research(tasks=write("mine.jsonl", {**QUESTION, "corpus": "texts.jsonl"}))
    rewards, _ = solve(env)
    assert rewards == pytest.approx({"agent_0": 1.0, "agent_1": 1.0, "agent_2": 1.0})
    assert check_env(env) == list(CHECKS)


def test_a_folder_of_text_files_is_a_corpus(write: Callable[..., str], tmp_path: Path) -> None:
    write("texts/people/Marie Curie.txt", "Marie Curie was born in Warsaw.", "", "She studied in Paris.")
    write("texts/places/Warsaw.txt", "Warsaw lies on the Vistula.")
    env = research(tasks=write("mine.jsonl", {**QUESTION, "corpus": str(tmp_path / "texts")}), specialists=["reader"])
    assert solve(env)[0]["agent_0"] == pytest.approx(1.0)
    texts = ("Marie Curie was born in Warsaw.", "Marie Curie: She studied in Paris.", "Warsaw lies on the Vistula.")
    assert corpora.corpus(env.items[0].fields["corpus"]).texts == texts


@pytest.mark.parametrize("form", [{}, AS_COLUMNS], ids=["pairs", "columns"])
def test_rows_of_published_sets_are_played_from_a_file(write: Callable[..., str], form: Any) -> None:
    env = research(tasks=write("hotpot_dev.jsonl", {**HOTPOT, **form}))
    rewards, _ = solve(env)
    assert env.item.id == "5a7a"
    assert rewards["agent_0"] == pytest.approx(1.0)
    unread, _ = play(env, main_says("Vistula", sub=two_steps), index=0)
    assert unread["agent_0"] == pytest.approx(0.1)  # right, but without the supporting passages
    assert env.last_score.diagnostics["right"] == 1.0


def test_the_hub_is_asked_for_the_published_set(write: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The data set is loaded by name and configuration; its rows are parsed like a local file of the same form."""
    asked: list[Any] = []
    path = write("rows.jsonl", {**HOTPOT, "id": HOTPOT["_id"], **AS_COLUMNS})
    load = datasets.load_dataset

    def local(name: str, config: str, *, split: str, **options: Any) -> Any:
        asked.append((name, config, split))
        return load("json", data_files=path, split="train", cache_dir=str(Path(path).parent / "cache"))

    monkeypatch.setattr(datasets, "load_dataset", local)
    env = research(tasks="hub", split="test")
    assert asked == [("hotpotqa/hotpot_qa", "distractor", "validation[:1000]")]
    assert env.items[0].split == "test"
    assert solve(env)[0]["agent_0"] == pytest.approx(1.0)


def test_yes_and_no_are_answers(write: Callable[..., str]) -> None:
    env = research(tasks=write("mine.jsonl", {**HOTPOT, "question": "Was she born in Warsaw?", "answer": "yes"}))
    for text, right in (("Yes, she was.", 1.0), ("No, yes is wrong.", 0.0), ("Perhaps.", 0.0)):
        play(env, main_says(text, sub=two_steps), index=0)
        assert env.last_score.diagnostics["right"] == right


@pytest.mark.parametrize(
    ("report", "expert"), [("Warsaw", 1.0), ("Berlin", 0.0), ("Warsaw or Berlin", 0.5), ("somewhere", 0.0)]
)
def test_without_known_facts_a_report_is_worth_what_stands_in_what_it_retrieved(
    write: Callable[..., str], report: str, expert: float
) -> None:
    def sub(agent: str, history: Any) -> str:
        return 'search("Curie born")' if len(history) == 1 else report

    env = research(tasks=write("mine.jsonl", HOTPOT))
    play(env, main_says('ask("reader", "where?")', "I stop.", sub=sub), index=0)
    assert env.last_score.diagnostics["expert"] == expert


# --- what is missing or malformed -------------------------------------------------------------------------------------

BAD_ROWS: dict[str, tuple[Any, str]] = {
    "no answer": ({"question": "Who?", "corpus": "texts.jsonl"}, r"mine.jsonl, row 1: field 'answer' is missing"),
    "empty": ({**QUESTION, "question": " ", "corpus": "texts.jsonl"}, r"row 1, field 'question': is empty"),
    "no corpus": (QUESTION, r"row 1: field 'corpus' is missing; .* --field corpus=NAME"),
    "no file": (
        {**QUESTION, "corpus": "gone.jsonl"},
        r"mine.jsonl, task 'mine/1', field 'corpus': corpus 'gone.jsonl' does not exist; give the path",
    ),
    "no such world": ({**QUESTION, "corpus": "world:900"}, r"corpus 'world:900' does not exist; worlds are world:2, "),
    "context": (
        {**HOTPOT, "context": "text"},
        r"mine.jsonl, row 1, cannot be read as a row of hotpotqa/hotpot_qa: field 'context' is 'text'",
    ),
}
BAD_CORPORA: dict[str, tuple[Any, str]] = {
    "not JSON": ("{", r"texts.jsonl, line 2: it is no JSON"),
    "a list": ([], r"line 2: .* list"),
    "no text": ({"title": "x"}, r"line 2, field 'text': is missing; give it text or remove the line"),
    "empty text": ({"text": " "}, r"line 2, field 'text': is ' '"),
    "number": ({"text": 4}, r"line 2, field 'text': is 4; give it text"),
    "title": ({"text": "x", "title": 3}, r"line 2, field 'title': is 3"),
    "support": ({"text": "x", "support": "yes"}, r"field 'support': is 'yes'"),
}


@pytest.mark.parametrize(("row", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_row_that_cannot_be_played_is_named(write: Callable[..., str], row: Any, message: str) -> None:
    write("texts.jsonl", *PASSAGES)
    with pytest.raises(TaskError, match=message):
        research(tasks=write("mine.jsonl", row))


@pytest.mark.parametrize(("line", "message"), BAD_CORPORA.values(), ids=BAD_CORPORA)
def test_a_line_of_a_corpus_that_cannot_be_read_is_named(write: Callable[..., str], line: Any, message: str) -> None:
    write("texts.jsonl", PASSAGES[0], line)
    with pytest.raises(TaskError, match=message):
        research(tasks=write("mine.jsonl", {**QUESTION, "corpus": "texts.jsonl"}))


def test_an_empty_corpus_is_named(write: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for corpus, message in (("empty", "has no .txt file with text"), (write("none.jsonl"), "no passages")):
        with pytest.raises(TaskError, match=message):
            research(tasks=write("mine.jsonl", {**QUESTION, "corpus": corpus}))


@pytest.mark.parametrize("name", ["/secrets", "../outside", "link", "folder", "link.jsonl"])
def test_a_row_names_nothing_outside_the_task_files_folder(
    write: Callable[..., str], name: str, tmp_path: Path
) -> None:
    write("outside/key.txt", "The key is 42.")
    write("outside/key.jsonl", *PASSAGES)
    path = write("here/mine.jsonl", {**QUESTION, "corpus": str(tmp_path / "outside") if name == "/secrets" else name})
    write("here/folder/fine.txt", "A text.")
    (tmp_path / "here" / "folder" / "key.txt").symlink_to(tmp_path / "outside" / "key.txt")
    (tmp_path / "here" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "here" / "link.jsonl").symlink_to(tmp_path / "outside" / "key.jsonl")
    with pytest.raises(TaskError, match=r"'mine/1', field 'corpus': .*(outside|key\.txt|key\.jsonl)'"):
        research(tasks=path)


def test_a_corpus_below_the_working_folder_is_read(
    write: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("work/texts.jsonl", *PASSAGES)
    monkeypatch.chdir(tmp_path / "work")
    assert solve(research(tasks=write("tasks/mine.jsonl", {**QUESTION, "corpus": "texts.jsonl"})))


def test_only_regular_files_of_a_limited_size_are_read(
    write: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("texts/a.txt", "Warsaw lies on the Vistula.")
    os.mkfifo(tmp_path / "texts" / "b.txt")  # reading it would wait for ever
    path = write("mine.jsonl", {**QUESTION, "corpus": "texts"})
    assert research(tasks=path).items
    monkeypatch.setattr(corpora, "_MOST_BYTES", 8)
    corpora.corpus.cache_clear()
    with pytest.raises(TaskError, match=r"a\.txt': a corpus has more than 8 bytes"):
        research(tasks=path)


def test_candidates_need_embedded_questions(write: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match="has no field 'steps'"):
        research(tasks=write("mine.jsonl", HOTPOT), candidates=True)
