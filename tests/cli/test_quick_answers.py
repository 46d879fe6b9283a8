"""What the command line answers before it loads torch."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

# Answers every command given as JSON, and says after each whether torch was loaded.
ANSWER = """
import json, sys
from typer.testing import CliRunner
from llm_dec_pomdp.cli import app

answers = []
for command in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    answers.append([result.exit_code, " ".join(result.output.split()), "torch" in sys.modules])
print(json.dumps(answers))
"""

COMMANDS: dict[str, tuple[list[str], int, str]] = {
    "help": (["--help"], 0, "Usage"),
    "help of bench": (["bench", "--help"], 0, "quick:"),
    "list": (["list"], 0, "magrpo"),
    "runs": (["runs", "."], 0, "progress"),
    "end of input": (["play", "tldr-v0", "--protocol", "centralized"], 1, "the input ended before"),
    "missing tasks": (["train", "tldr-v0", "--tasks", "none.jsonl"], 2, "'none.jsonl' does not exist"),
    "missing test tasks": (["train", "tldr-v0", "--eval-tasks", "none.jsonl"], 2, "'none.jsonl' does not exist"),
    "wrong split": (["eval", "tldr-v0", "--split", "tset"], 2, "did you mean test"),
    "wrong executor": (["train", "tldr-v0", "--executor", "proceses"], 2, "did you mean processes"),
    "wrong environment": (["eval", "tdlr-v0"], 2, "did you mean tldr-v0"),
    "wrong option": (["eval", "tldr-v0", "--env", "feedbck=x"], 2, "takes no argument 'feedbck'"),
    "wrong option of a learner": (["train", "tldr-v0", "--set", "epoch=2"], 2, "did you mean epochs"),
    "an option and its alias": (["train", "tldr-v0", "--group-size", "2", "--num-generations=2"], 2, "--group-size"),
    "alias": (["train", "tldr-v0", "--num-generations", "0"], 2, "--group-size = 0"),
    "no run": (["report", "nowhere"], 2, "is no run folder"),
    "no built-in model": (["eval", "tldr-v0", "--model", "builtin:tyni"], 2, "did you mean builtin:tiny"),
    "no model file": (["eval", "tldr-v0", "--model", "models/none.gguf"], 2, "does not exist"),
    "no model": (["eval", "tldr-v0", "--model", "modles/tiny"], 2, "did you mean 'models/tiny'?"),
    "no model of a suite": (["bench", "quick", "--model", "./model/tiny"], 2, "./model/tiny"),
    "no tasks of a suite": (["bench", "own.toml"], 2, "'none.jsonl' does not exist"),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("here")
    (folder / "models" / "tiny").mkdir(parents=True)
    (folder / "own.toml").write_text(
        'name = "own"\nmethods = [{ name = "concat" }]\nenvironments = [{ id = "tldr-v0", tasks = "none.jsonl" }]\n'
    )
    before = sorted(folder.rglob("*"))
    commands = json.dumps([command for command, _, _ in COMMANDS.values()])
    run = [sys.executable, "-c", ANSWER, commands]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    assert sorted(folder.rglob("*")) == before  # and no run folder is left
    return dict(zip(COMMANDS, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", COMMANDS)
def test_it_is_answered_before_torch_is_loaded(name: str, answers: dict[str, Any]) -> None:
    _, code, message = COMMANDS[name]
    found_code, output, torch_loaded = answers[name]
    assert message in output
    assert (found_code, torch_loaded) == (code, False)
