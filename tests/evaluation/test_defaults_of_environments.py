"""What a cell leaves to its environment: the model that plays, and the episodes per task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.benchmarks.checks import check_cells
from llm_dec_pomdp.benchmarks.suite import Cell, Suite
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.evaluation.teams import default_model

COPIED = {"name": "imitation", "options": {"source": "script:gold"}}


@pytest.mark.parametrize(
    ("env_id", "protocol", "model"),
    [
        ("dectiger-v0", "parallel", "builtin:table"),
        ("dectiger-v0", "centralized", "builtin:tiny"),
        ("scouts-v0", "parallel", "builtin:table"),
        ("keys-v0", "parallel", "builtin:words"),
        ("tldr-v0", "parallel", "builtin:extractive"),
        ("tldr-v0", "centralized", "builtin:extractive"),
        ("tldr-v1", "parallel", "builtin:tiny"),
        ("arxiv-v0", "parallel", "builtin:tiny"),
    ],
)
def test_the_default_model_can_say_what_the_environment_asks_for(env_id: str, protocol: str, model: str) -> None:
    assert default_model(with_protocol(llm_dec_pomdp.make(env_id), protocol)) == model


def test_a_suite_measures_a_single_task_a_hundred_times() -> None:
    ids = ("dectiger-v0", "scouts-v0", "relay-v0", "tldr-v0")
    values = {"name": "s", "environments": [{"id": i} for i in ids], "methods": [{"name": "magrpo"}]}
    cells = check_cells(Suite.model_validate(values).cells())
    assert [cell.evaluation.samples for cell in cells] == [100, 100, 1, 1]
    assert [cell.model.name for cell in cells] == ["builtin:table"] * 3 + ["builtin:extractive"]
    shown = {**values, "environments": [{"id": "tldr-v0"}], "methods": [COPIED]}
    assert [cell.model.name for cell in check_cells(Suite.model_validate(shown).cells())] == ["builtin:tiny"]
    few = {**values, "evaluation": {"samples": 3}}
    assert {cell.evaluation.samples for cell in check_cells(Suite.model_validate(few).cells())} == {3}


@pytest.mark.slow
def test_train_and_eval_play_a_textbook_game_with_a_table_and_a_hundred_episodes(tmp_path: Path) -> None:
    for command in ("train", "eval"):
        size = ["--steps", "1"] if command == "train" else []
        ran = CliRunner().invoke(app, [command, "dectiger-v0", *size, "--json", "--out", str(tmp_path / command)])
        assert ran.exit_code == 0, ran.output
        [result] = json.loads(ran.stdout)["results"]
        assert result["summary"]["episodes"] == 100
        [path] = tmp_path.glob(f"{command}/cells/*/cell.json")
        assert Cell.read(path).model.name == "builtin:table"
    env = llm_dec_pomdp.make("dectiger-v0")
    assert llm_dec_pomdp.evaluate(llm_dec_pomdp.load_team(env), env).episodes == 100
