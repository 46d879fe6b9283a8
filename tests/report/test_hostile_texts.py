"""Runs whose names and texts are hostile: every page, table and file of theirs is written and read, and shows text."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path

import pytest
from evaluated import write_evaluation
from pages import packed
from typer.testing import CliRunner

from llm_dec_pomdp.agents.io.save import folder_of
from llm_dec_pomdp.benchmarks.result import Result
from llm_dec_pomdp.benchmarks.suite import Cell, EnvironmentConfig, MethodConfig, ModelConfig
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.evaluation.intervals import mean_interval
from llm_dec_pomdp.evaluation.metrics import Summary
from llm_dec_pomdp.options import EvaluationConfig, Sampling
from llm_dec_pomdp.printable import escape_controls, inline
from llm_dec_pomdp.report import page, text
from llm_dec_pomdp.report.tables import frame
from llm_dec_pomdp.results.listing import list_runs
from llm_dec_pomdp.storage.files import replace_json
from llm_dec_pomdp.storage.runfolder import append
from llm_dec_pomdp.training import TrainerConfig
from llm_dec_pomdp.types import Completion, Score, Turn

PIECES = [
    *("\x1b[31m", "\x1b]0;owned\x07", "\x9b2J", "\x00", "\r", "\x85", "\u2028", "\u202e", "\u2066", "\ud800", "\udfff"),
    *("[red]", "[/]", "[/red]", "[link=http://evil]", ":leaves:", "a:Leaves", ":warning:"),
    *("<script>alert(1)</script>", "</script>", "<!--", "<img src=x onerror=alert(1)>", "&lt;"),
    *("&#x3c;b", "']]>", "{{ 7 }}", "![x](http://evil)", "\\", "#", "e\u0301", "", "word"),
    *("|", "\n", "\n# head", "\n\n---\n", "~~~", "```", "*a*", "_b_", "[x](javascript:y)"),
    *("$\\frac{1}$", "$", "__proto__", "constructor", "../..", "%s", "{0}", "  ", "\t", "漢字", "😀"),
]  # fmt: skip


def hostile(draw: random.Random, most: int = 4) -> str:
    return "".join(draw.choice(PIECES) for _ in range(draw.randint(1, most)))


def write_hostile_run(folder: Path, draw: random.Random) -> None:
    """A finished run, as `bench` would have left it, and a cell that failed."""
    task, agent, part = (hostile(draw) for _ in range(3))
    names = dict.fromkeys([hostile(draw) + str(number) for number in range(2)])
    environment = EnvironmentConfig(id="tldr-v0", label=hostile(draw))
    replace_json(folder / "suite.json", {"name": hostile(draw), "about": hostile(draw, 9)})
    replace_json(folder / "versions.json", {"llm_dec_pomdp": "1", hostile(draw): hostile(draw)})
    replace_json(folder / "status.json", {"state": "failed", "reason": hostile(draw, 9), "time": 0.0})
    (folder / "commands.txt").write_text(escape_controls(hostile(draw)) + "\n", encoding="utf-8")
    for number, name in enumerate([*names, hostile(draw)]):
        method = MethodConfig(name="concat", label=name)
        model, sampling = ModelConfig(name=hostile(draw)), Sampling()
        cell = Cell(environment, method, model, 0, sampling, TrainerConfig(steps=1), EvaluationConfig())
        place = folder / "cells" / str(number)
        place.mkdir(parents=True)
        replace_json(place / "cell.json", cell.to_dict())
        if number == len(names):
            replace_json(place / "failure.json", {"reason": hostile(draw, 9)})
            continue
        score = Score(1.0, {part: 1.0}, notes={agent: hostile(draw, 9)})
        turn = Turn({agent: hostile(draw, 9)}, {agent: Completion(hostile(draw, 9))}, 1.0, score)
        write_evaluation(place, [(task, turn)])
        interval = mean_interval([30.0, 40.0])
        measured = {"schemes": {hostile(draw): mean_interval([0.5])}}
        summary = Summary(interval, {part: interval}, 1.0, 10.0, 2.0, 5.0, 6.0, 0.0, 12, 0, measured=measured)
        step = {"number": 1, "return_percent": 30.0, "metrics": {"length": 2.0}, "components": {part: 1.0}}
        append(place / "train.jsonl", step)
        for number_of_step in (0, 1) if draw.random() < 0.1 else ():  # a picture takes longest to draw
            append(place / "curve.jsonl", {"step": number_of_step, "training_episodes": 4, **asdict(summary)})
        replace_json(place / "result.json", Result(cell, summary, 1.0, 1.0, 3.0, "digest").to_dict())


class Reader(HTMLParser):
    """Elements of a page, and what they would run."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def check_files(folder: Path) -> None:
    """What was written can be read again and holds nothing but text."""
    page, text = ((folder / name).read_bytes().decode() for name in ("report.html", "report.md"))
    for content in (page, text):
        assert escape_controls(content) == content
    reader = Reader()
    reader.feed(page)
    assert not reader.elements & {"img", "b", "link", "iframe"}
    assert page.count("<script") == 2
    assert reader.handlers == []
    shown = packed(page)
    assert escape_controls(json.dumps(shown, ensure_ascii=False)) == json.dumps(shown, ensure_ascii=False)
    assert len(shown["traces"]) == 2
    tables = [line for line in outside_of_blocks(text) if line.startswith("|")]
    widths = [line.replace("\\\\", "").replace("\\|", "").count("|") for line in tables]
    heads = [number for number, line in enumerate(tables) if set(line) <= set("|- ")]
    assert all(widths[number - 1] == widths[number] == widths[number + 1] for number in heads)
    assert not any(line.lstrip().startswith("<") for line in outside_of_blocks(text))


def outside_of_blocks(text: str) -> list[str]:
    kept, inside = [], False
    for line in text.split("\n"):
        if line.startswith("~~~"):
            inside = not inside
        elif not inside:
            kept.append(line)
    return kept


def check_runs(folder: Path, first: int, count: int) -> None:
    for number in range(first, first + count):
        run = folder / str(number)
        run.mkdir()
        write_hostile_run(run, random.Random(number))
        for arguments in (["report", str(run)], ["runs", str(run)]):
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, (number, result.output, result.exception)
            assert escape_controls(result.output) == result.output, number
        check_files(run)
        [found] = list_runs(run)
        assert found.status == "failed"


def test_a_table_holds_any_text() -> None:
    table = frame(["\ud800", "\x1b"], [["\udfff", "\x00"]])
    assert (list(table.columns), list(table.iloc[0])) == (["\ud800", "\x1b"], ["\udfff", "\x00"])


@pytest.mark.slow
def test_reports_of_100_hostile_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_runs(tmp_path, 1000, 5)
    monkeypatch.setattr(page, "inline", lambda panel, about: "")  # drawings take most of the time
    monkeypatch.setattr(text, "save", lambda figure, *paths: None)
    check_runs(tmp_path, 1005, 95)


# --- single files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b\nc", "a\\|b c"),
        ("<script>", "\\<script>"),
        ("p <0.001 b_c", "p <0.001 b_c"),
        ("![x](y) *z* `w` \\ ~~v~~", "!\\[x\\](y) \\*z\\* \\`w\\` \\\\ \\~\\~v\\~\\~"),
        ("&lt; & x", "\\&lt; & x"),
        ("\x1b[0m\ud800", "\\\\x1b\\[0m\\\\ud800"),
    ],
)
def test_names_are_text_in_markdown(text: str, shown: str) -> None:
    assert inline(text) == shown


@pytest.mark.parametrize("agent", ["..", ".", "...", "a/b", "../x", "\ud800", "\x00", "a\nb", "C:\\x"])
def test_a_folder_of_an_agent_lies_below_its_parent(agent: str, tmp_path: Path) -> None:
    folder = tmp_path / folder_of(agent)
    folder.mkdir()
    assert [path.resolve() for path in tmp_path.iterdir()] == [folder.resolve()]
    assert folder.resolve().parent == tmp_path.resolve()


def test_commands_are_noted_whatever_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from llm_dec_pomdp.benchmarks.runner import run_folder

    monkeypatch.setattr("sys.argv", ["llm-dec-pomdp", "eval", "\udcff\x1b[31m\nx"])
    with run_folder(tmp_path / "run"):
        pass
    noted = (tmp_path / "run" / "commands.txt").read_bytes().decode()
    assert noted == "llm-dec-pomdp eval '\\udcff\\x1b[31m\\nx'\n"
