"""Rows of a user's own that would hold the judge or end a training are found before its first step."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.coding import trial
from llm_dec_pomdp.envs.coding.reward import job
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.sandbox import Limits, worker

ROW = {
    "prompt": 'def add(x):\n    """Add one."""\n',
    "entry_point": "add",
    "test": "def check(candidate):\n    assert candidate(1) == 2\n",
}
CHECK = "def check(candidate):\n    {}\n    assert candidate(1) == 2\n"


def row(**changes: Any) -> dict[str, Any]:
    return {**ROW, **changes}


UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "endless tests": ({"test": CHECK.format("while True: pass")}, "test"),
    "endless asserts": ({"test": CHECK.format("while True: assert candidate(0)")}, "test"),
    "an endless module": ({"test": "while True: pass\n" + ROW["test"]}, "test"),
    "a module that raises": ({"test": "1 / 0\n" + ROW["test"]}, "test"),
    "a module that is not installed": ({"test": "import nothing_of_the_kind\n" + ROW["test"]}, "test"),
    "tests that end their process": ({"test": "import os\nos._exit(0)\n" + ROW["test"]}, "test"),
    "tests without an argument": ({"test": "def check():\n    assert add(1) == 2\n"}, "test"),
    "a problem that raises": ({"prompt": "1 / 0\n" + ROW["prompt"]}, "prompt"),
    "an endless problem": ({"prompt": "while True: pass\n" + ROW["prompt"]}, "prompt"),
}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge has a fifth of its time, and less for loading than in total."""
    limits = Limits(cpu_seconds=1.0, case_seconds=0.4)
    monkeypatch.setattr(trial, "job", lambda item, source: replace(job(item, source), limits=limits))


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "field"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_row_that_no_program_can_pass_is_named(changes: dict[str, Any], field: str, hurried: None) -> None:
    env = llm_dec_pomdp.make("mbpp-v0", tasks=[row(id="good"), row(id="bad", **changes)])
    with pytest.raises(TaskError, match=f"items, task 'bad', field '{field}'"):
        env.task.try_rows()


@pytest.mark.slow  # the judge waits for its limit
def test_tests_that_sleep_are_named(monkeypatch: pytest.MonkeyPatch, hurried: None) -> None:
    monkeypatch.setattr(worker, "GRACE", 1.0)
    env = llm_dec_pomdp.make("mbpp-v0", tasks=[row(test=CHECK.format("__import__('time').sleep(1000)"))])
    with pytest.raises(TaskError, match="field 'test'"):
        env.task.try_rows()


GOOD = {
    "plain": {},
    "a loop until the program says so": {"test": CHECK.format("while not candidate(0): pass")},
    "the program is called before check": {"test": "two = add(1)\ndef check(candidate):\n    assert two == 2\n"},
    "errors are expected": {"test": CHECK.format("try: candidate('')\n    except Exception: pass")},
}


@pytest.mark.parametrize("changes", GOOD.values(), ids=GOOD)
def test_rows_that_a_program_may_pass_are_not_refused(changes: dict[str, Any]) -> None:
    llm_dec_pomdp.make("mbpp-v0", tasks=[row(**changes)]).task.try_rows()


def test_rows_of_this_package_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "first_unusable", lambda items: pytest.fail("they are tried"))
    llm_dec_pomdp.make("mbpp-v0").task.try_rows()


def test_a_training_ends_before_its_folder_is_made(tmp_path: Path) -> None:
    """Also where the row is one of those that are trained on, and the evaluation has others."""
    rows = [row(id="measured", split="test"), row(id="trained", split="train", test="1 / 0\n" + ROW["test"])]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in rows))
    result = CliRunner().invoke(app, ["train", "mbpp-v0", "--tasks", str(file), "--out", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert "task 'trained', field 'test'" in " ".join(result.output.split())
    assert not (tmp_path / "run").exists()


LATE: dict[str, tuple[str, dict[str, Any], str]] = {
    "too few references": ("tldr-v0", {"prompt": "a post", "reference": ["one"]}, "reference"),
    "the helper's name": ("mbpp-v0", row(entry_point="aux"), "entry_point"),
}


@pytest.mark.parametrize(("env_id", "bad", "field"), LATE.values(), ids=LATE)
def test_what_would_raise_when_it_is_played_is_refused_when_it_is_loaded(
    env_id: str, bad: dict[str, Any], field: str
) -> None:
    with pytest.raises(TaskError, match=f"field '{field}'"):
        llm_dec_pomdp.make(env_id, tasks=[bad])
