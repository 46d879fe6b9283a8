"""Exceptions of a user's own code: every command shows file, line, function, task and actions."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest
from rich.errors import MissingStyle
from typer.testing import CliRunner, Result

import llm_dec_pomdp
from llm_dec_pomdp import user_code
from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.agents.base import Policy, Request, Sampling
from llm_dec_pomdp.agents.scripted import Scripted
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.checks import CheckFailure
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.printable import Terminal
from llm_dec_pomdp.registries import UnknownNameError
from llm_dec_pomdp.training.workers.process import Processes
from llm_dec_pomdp.types import Completion, Message, conversation

MODULE = '''
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.envs import Facts, TaskSource, TextTask
from llm_dec_pomdp.types import Score, TaskItem


class Honest(TextTask):
    """Two agents say a number."""

    declared = Facts(name="haggle", roles=("buyer", "seller"), components=("deal",), score_range=(0.0, 1.0))
    source = TaskSource(
        "haggle", sample=lambda: [TaskItem(f"h{i}", f"Sell {i}.", split=s) for i, s in enumerate(["train", "test"])]
    )

    def observe(self, item, agent):
        return item.prompt

    def score(self, item, actions):
        return self.value(item, actions)

    def value(self, item, actions):
        return Score(0.0, {"deal": 0.0})

    def choices(self, agent, history=()):
        return ["one", "two"]


class Key(Honest):
    def value(self, item, actions):
        raise KeyError("oops")


class Number(Honest):
    def value(self, item, actions):
        for text in actions.values():
            int(text)


class File(Honest):
    def value(self, item, actions):
        return open("prices.txt")


class Built(Honest):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.value()


class Script(Honest):
    declared = Facts(
        name="haggle", roles=("buyer", "seller"), components=("deal",), score_range=(0.0, 1.0), scripts=("mine",)
    )

    def script(self, name):
        return self.value if name == "mine" else super().script(name)

    def value(self, agent, history):
        return {}["price"]


class Learner(MAGRPO):
    def update(self, groups):
        return self.value(groups)

    def value(self, groups):
        raise ValueError("no price")
'''
RUN = ["--out", "run"]


@pytest.fixture
def haggle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module `haggle` in the working folder."""
    import importlib

    (tmp_path / "haggle.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "haggle", raising=False)
    importlib.invalidate_caches()
    return importlib.import_module("haggle")


def call(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=text, env={"COLUMNS": "200"})


def line_of(code: str) -> int:
    """The number of the line that holds this code."""
    [number] = [number for number, line in enumerate(MODULE.splitlines(), 1) if code in line]
    return number


@pytest.mark.parametrize(
    ("arguments", "code", "task", "error"),
    [
        (["eval", "haggle:Key", *RUN], 'KeyError("oops")', "h1", "KeyError: 'oops'"),
        (["eval", "haggle:Number", *RUN], "int(text)", "h1", "ValueError: invalid literal for int()"),
        (["eval", "haggle:File", *RUN], "open(", "h1", "FileNotFoundError: [Errno 2]"),
        (["eval", "haggle:Script", "--model", "script:mine", *RUN], '{}["price"]', "", "KeyError: 'price'"),
        (["eval", "haggle:Key", "--algorithm", "sequential", *RUN], 'KeyError("oops")', "h1", "KeyError: 'oops'"),
        (["train", "haggle:Key", *RUN], 'KeyError("oops")', "h1", "KeyError: 'oops'"),
        (["train", "haggle:Honest", "--algorithm", "haggle:Learner", *RUN], '"no price"', "", "ValueError: no price"),
        (["play", "haggle:Key", "--task", "h0"], 'KeyError("oops")', "h0", "KeyError: 'oops'"),
        (["check", "haggle:Number"], "int(text)", "h0", "ValueError: invalid literal"),
    ],
)
def test_a_command_shows_where_user_code_raised(
    arguments: list[str], code: str, task: str, error: str, haggle: ModuleType
) -> None:
    result = call(*arguments, text="one\n\n")
    assert result.exit_code == 1
    place = f"haggle.py:{line_of(code)}, in value"
    place += f", task '{task}'" if task else ""
    last = result.stderr.splitlines()[-1]
    assert place in last
    assert error in last
    traceback = result.stderr.partition("Traceback of user code")[2]
    assert code in traceback
    assert "llm_dec_pomdp/" not in traceback.partition("full traceback")[0]  # frames of the package are left out
    if task:
        assert " acted '" in traceback
    if "--out" in arguments:
        status = json.loads(Path("run/status.json").read_text())
        assert (status["state"], place in status["reason"]) == ("failed", True)
        assert "llm_dec_pomdp/" in Path("run/traceback.txt").read_text()  # the full one


def test_a_constructor_and_an_import_of_the_user_are_shown_and_a_wrong_option_is_not(haggle: ModuleType) -> None:
    built = call("eval", "haggle:Built")
    assert built.exit_code == 1
    assert f"haggle.py:{line_of('self.value()')}, in __init__: TypeError" in built.stderr
    Path("halved.py").write_text("price = 1\nprice = = 2\n")
    broken = call("eval", "halved:Env")
    assert (broken.exit_code, "halved.py:2" in broken.stderr) == (1, True)
    for wrong in (["--turns", "0"], ["--env", "colour=red"], ["--tasks", "none.jsonl"]):
        refused = call("eval", "haggle:Honest", *wrong)
        assert (refused.exit_code, "Traceback" in refused.output) == (2, False)


def test_the_team_of_a_run_that_failed_early_is_refused_with_the_reason(haggle: ModuleType) -> None:
    assert call("train", "haggle:Key", *RUN).exit_code == 1
    for place in ("run", str(next(Path("run/cells").iterdir()))):
        for command in (["eval", "--team", place], ["export", place, "out"]):
            result = call(*command)
            assert result.exit_code == 2
            assert "failed before its first checkpoint (KeyError: 'oops' (haggle.py:" in result.stderr


@pytest.mark.slow
def test_a_cell_of_a_benchmark_shows_where_user_code_raised(haggle: ModuleType) -> None:
    Path("own.toml").write_text('name = "own"\nmethods = ["concat"]\nenvironments = ["haggle:Key"]\n')
    result = call("bench", "own.toml", "--trust", "--out", "run")
    assert result.exit_code == 1
    place = f"haggle.py:{line_of('KeyError(')}, in value, task 'h1'"
    assert 'raise KeyError("oops")' in result.stderr
    [folder] = Path("run/cells").iterdir()
    assert place in json.loads((folder / "failure.json").read_text())["reason"]
    assert "llm_dec_pomdp/" in (folder / "traceback.txt").read_text()


def test_python_gets_the_original_exception_with_task_and_actions(haggle: ModuleType) -> None:
    env = haggle.Key(split="all")
    with pytest.raises(KeyError) as caught:
        llm_dec_pomdp.evaluate(Team({agent: Scripted(lambda *_: "9" * 5000) for agent in env.possible_agents}), env)
    assert caught.value.args == ("oops",)
    task, first, second = caught.value.__notes__
    assert task == "task 'h0'"
    assert "agent_0 (buyer) acted '999" in first
    assert "5000 characters" in second
    assert len(second) < 500


def test_a_failed_check_names_line_task_and_actions(haggle: ModuleType) -> None:
    with pytest.raises(CheckFailure, match=rf"haggle\.py:{line_of('int(text)')}, in value, task 'h0'.*acted ''"):
        llm_dec_pomdp.check_env(haggle.Number(split="all"))


class Whose:
    """Code of a user: this file is outside of the package."""

    def own_error(self) -> None:
        raise TaskError("the row has no price")

    def derived_error(self) -> None:
        raise _NoPriceError("no price")

    def wrong_name(self) -> None:
        llm_dec_pomdp.make("tldr-v9")

    def wrong_argument_of_the_package(self) -> None:
        llm_dec_pomdp.make("tldr-v0", max_turns=0)


class _NoPriceError(TaskError):
    """A user's own class."""


@pytest.mark.parametrize(
    ("method", "of_user"),
    [("own_error", False), ("derived_error", True), ("wrong_name", False), ("wrong_argument_of_the_package", True)],
)
def test_an_error_class_of_the_package_is_a_sentence_and_any_other_of_user_code_is_not(
    method: str, of_user: bool
) -> None:
    def say(agent: str, history: Sequence[Message]) -> str:
        return str(getattr(Whose(), method)())

    policy = Scripted(say)  # which calls the user's code
    with pytest.raises((ValueError, UnknownNameError)) as caught:
        policy.generate([Request("agent_0", conversation("hello"))], Sampling())
    assert user_code.is_of_user(caught.value) == of_user


def test_an_error_of_a_library_that_the_package_called_is_neither_a_sentence_nor_of_user_code() -> None:
    with pytest.raises(MissingStyle) as caught:
        Terminal().print("a", style="no such style")
    assert not user_code.is_of_user(caught.value)
    assert not user_code.is_sentence(caught.value)


class Failing(Policy):
    """Raises in its worker."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        raise KeyError("oops")


def failing_team() -> Team:
    return Team({"agent_0": Failing()})


@pytest.mark.slow
def test_the_place_crosses_the_border_of_a_process() -> None:
    with Processes() as executor:
        policy = executor.place(["agent_0"], failing_team)
        with pytest.raises(KeyError) as caught:
            policy.generate([Request("agent_0", conversation("hello"))], Sampling())
    assert user_code.is_of_user(caught.value)
    assert "test_user_code.py" in user_code.where(caught.value)
    assert 'raise KeyError("oops")' in user_code.user_traceback(caught.value)
