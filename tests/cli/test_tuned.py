"""`train --config`: settings with which published results were trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from llm_dec_pomdp.benchmarks.tuned import tuned, tuned_file
from llm_dec_pomdp.cli import app

SHORT = "--steps 1 --prompts 1 --group-size 2 --items 1 --samples 1 --max-new-tokens 8".split()


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["train", *arguments], env={"COLUMNS": "200"})


def trained(folder: Path, *arguments: str) -> dict[str, Any]:
    """The configuration of a run."""
    done = call(*arguments, "--out", str(folder))
    assert done.exit_code == 0, done.output
    [cell] = folder.glob("cells/*/cell.json")
    return json.loads(cell.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_settings_are_those_of_the_file_unless_the_command_line_has_others(tmp_path: Path) -> None:
    settings = 'algorithm = "iac"\nturns = 2\ngroup_size = 1\nsteps = 9\n'
    settings += "[set]\nlearning_rate = 0.4\ncritic_epochs = 1\n"
    (tmp_path / "mine.toml").write_text(settings + "[env]\ncandidates = true\n")
    given = "--steps 1 --prompts 1 --samples 1 --set learning_rate=0.2 --env candidates=false".split()
    cell = trained(tmp_path / "run", "dectiger-v0", "--config", str(tmp_path / "mine.toml"), *given)
    assert cell["method"]["name"] == "iac"
    assert cell["method"]["options"] == {"learning_rate": 0.2, "critic_epochs": 1}
    assert cell["environment"]["options"] == {"candidates": False}
    assert (cell["environment"]["max_turns"], cell["training"]["steps"], cell["training"]["group_size"]) == (2, 1, 1)


def test_settings_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    refused = call("dectiger-v0", "--config", "marlo", "--out", str(tmp_path / "run"))
    assert refused.exit_code == 2
    assert "marloo" in refused.output
    (tmp_path / "wrong.toml").write_text("stepz = 3\n")
    refused = call("dectiger-v0", "--config", str(tmp_path / "wrong.toml"), "--out", str(tmp_path / "run"))
    assert refused.exit_code == 2
    assert "'stepz'" in refused.output
    assert "steps" in refused.output
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "name"), [(env_id, name) for env_id, names in tuned().items() for name in names])
def test_tuned_settings_train(env_id: str, name: str, tmp_path: Path) -> None:
    model = ("--model", "builtin:tiny") if name.endswith("smollm2") else ()  # of the user
    trained(tmp_path / "run", env_id, "--config", name, *SHORT, *model)


def test_tuned_settings_say_where_they_were_measured() -> None:
    root = Path(__file__).parents[2]
    for env_id, names in tuned().items():
        for name in names:
            comment = tuned_file(name, env_id).read_text(encoding="utf-8").partition("algorithm")[0]
            page = next(word for word in comment.split() if word.startswith("docs/results/")).partition("#")[0]
            assert (root / page).is_file()
