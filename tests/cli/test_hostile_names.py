"""Commands that show names and texts of an environment whose author means harm."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llm_dec_pomdp.cli import app
from llm_dec_pomdp.printable import escape_controls, inline

MODULE = """
from llm_dec_pomdp.envs.tasks import TaskSource
from llm_dec_pomdp.envs.facts import Facts
from llm_dec_pomdp.envs.text_task import TextTask
from llm_dec_pomdp.types import Score, TaskItem

EVIL = "[/]\\x1b]0;owned\\x07:leaves:\\ud800[red]"


class Leaves(TextTask):
    declared = Facts(name="leaves-v0", roles=(EVIL,), components=(EVIL,), score_range=(0.0, 1.0))
    source = TaskSource("leaves", sample=lambda: [TaskItem(EVIL, "say " + EVIL, reference=("red",))])

    def observe(self, item, agent):
        return item.prompt

    def score(self, item, actions):
        value = float(any(text.strip() for text in actions.values()))
        return Score(value, {EVIL: value})
"""
SHOWN = "[/]\\x1b]0;owned\\x07:leaves:\\ud800[red]"


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("a_hostile", None)
    (tmp_path / "a_hostile.py").write_text(MODULE)


def output_of(*arguments: str, text: str = "") -> str:
    result = CliRunner().invoke(app, arguments, input=text)
    assert result.exit_code == 0, (result.output, result.exception)
    assert escape_controls(result.output) == result.output
    return "".join(result.output.split())


def test_playing_shows_names_as_text() -> None:
    shown = output_of("play", "a_hostile:Leaves", text="my \x1b[31m text\n\n")
    assert f"Yourroleis{SHOWN}ina_hostile:Leaves,task{SHOWN}." in shown
    assert f"1.00of1{SHOWN}1.00" in shown


@pytest.mark.slow
def test_measuring_and_checking_show_names_as_text() -> None:
    assert "a_hostile:Leaves" in output_of("check", "a_hostile:Leaves")
    arguments = ("--items", "1", "--max-new-tokens", "4", "--split", "all", "--out", "run")
    assert "a_hostile:Leaves" in output_of("eval", "a_hostile:Leaves", *arguments)
    output_of("report", "run")
    report = Path("run/report.md").read_text()
    assert escape_controls(report) == report
    assert inline(SHOWN) in report
