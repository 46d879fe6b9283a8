"""`rescore`: the texts of a run under another version of a reward."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from llm_dec_pomdp.cli import app


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def measured(tmp_path: Path, env_id: str, name: str, model: str = "script:gold", *options: str) -> dict[str, float]:
    team = tmp_path / "team.toml"
    team.write_text(f'[[members]]\nagents = ["summary", "elaboration"]\nmodel = "{model}"\n', encoding="utf-8")
    ran = invoke("eval", env_id, "--team", str(team), "--items", "3", "--out", str(tmp_path / name), *options)
    assert ran.exit_code == 0, ran.output
    [result] = tmp_path.glob(f"{name}/cells/*/result.json")
    summary = json.loads(result.read_text(encoding="utf-8"))["summary"]
    return {"return": summary["return_percent"]["mean"], **{k: v["mean"] for k, v in summary["components"].items()}}


def rescored(tmp_path: Path, name: str, env_id: str) -> dict[str, float]:
    ran = invoke("rescore", str(tmp_path / name), env_id)
    assert ran.exit_code == 0, ran.output
    [entry] = json.loads((tmp_path / name / f"rescored-{env_id}.json").read_text(encoding="utf-8"))
    after = entry["after"]
    return {"return": after["return_percent"]["mean"], **{k: v["mean"] for k, v in after["components"].items()}}


@pytest.mark.slow
def test_texts_earn_under_another_version_what_they_earn_when_said_there(tmp_path: Path) -> None:
    under_v0 = measured(tmp_path, "tldr-v0", "zero", "builtin:tiny")
    under_v1 = measured(tmp_path, "tldr-v1", "one", "builtin:tiny")
    assert rescored(tmp_path, "zero", "tldr-v1") == under_v1 != under_v0
    assert rescored(tmp_path, "one", "tldr-v0") == under_v0


def test_texts_are_scored_under_the_protocol_of_the_run(tmp_path: Path) -> None:
    under_v0 = measured(tmp_path, "tldr-v0", "zero", "script:random", "--algorithm", "sequential")
    assert rescored(tmp_path, "zero", "tldr-v0") == under_v0


def test_what_cannot_be_scored_is_refused_in_a_sentence(tmp_path: Path) -> None:
    measured(tmp_path, "tldr-v0", "run")
    for env_id, sentence in [
        ("arxiv-v0", "has no task"),
        ("dectiger-v0", "has a hidden state"),
        ("tldr-v2", "judge= is missing"),
        ("tldr-v9", "did you mean"),
    ]:
        ran = invoke("rescore", str(tmp_path / "run"), env_id)
        assert ran.exit_code == 2
        assert sentence in " ".join(ran.output.split())
    ran = invoke("rescore", str(tmp_path), "tldr-v1")
    assert ran.exit_code == 2
    assert "has no evaluated episodes" in " ".join(ran.output.split())
