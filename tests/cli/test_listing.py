"""The command `runs`, and what tables and lines say of games whose optimum is known and of a user's own tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result
from written_runs import run_here

from llm_dec_pomdp.benchmarks.suite import load_suite
from llm_dec_pomdp.cli import app

pytestmark = pytest.mark.slow  # the runs that are listed are trained first

SHORT = ["--items", "2", "--max-new-tokens", "4", "--device", "cpu"]
GAME, POSTS, BENCH = "train-firefighting-v0-20261125-142344", "train-tldr-v0-20261125-142317", "bench-20261125-142831"
SUITE = 'name = "s"\nseeds = [0, 1]\nenvironments = ["dectiger-v0"]\nmethods = ["concat"]\n'


def call(*arguments: str, columns: int | None = 120) -> Result:
    """Without columns nobody says how wide lines are."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": None if columns is None else str(columns)})
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trainings, one of which failed says its file, and a benchmark of which a cell has no result."""
    runs = tmp_path_factory.mktemp("all") / "runs"
    call("train", "tldr-v0", "--steps", "0", *SHORT, "--out", str(runs / POSTS))
    trained = call("train", "firefighting-v0", "--steps", "1", "--out", str(runs / GAME), columns=None)
    (runs.parent / "trained.txt").write_text(trained.output)
    suite = runs.parent / "suite.toml"
    suite.write_text(SUITE)
    run_here(load_suite(str(suite)), runs / BENCH)
    next(iter((runs / BENCH).rglob("result.json"))).unlink()
    status = runs / POSTS / "status.json"
    reason = "a model that could not be loaded, for reasons that fill more than one line of a terminal;\n" * 3
    reason += "(own.py:5)"
    status.write_text(json.dumps({**json.loads(status.read_text()), "state": "failed", "reason": reason}))
    return runs


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_every_column_of_runs_is_readable_beside_a_run_that_failed(folder: Path, columns: int) -> None:
    text = call("runs", str(folder), columns=columns).stdout
    header, *lines = text.splitlines()
    assert header.split() == ["run", "status", "progress", "return", "regret", "age"]
    rows = {name: line.split() for line in lines for name in (GAME, POSTS, BENCH) if line.startswith(f"{name} ")}
    assert rows[POSTS][1] == "failed"
    assert rows[POSTS][3] == "%"
    assert rows[BENCH][1:4] == ["done", "1/2", "runs"]
    assert rows[GAME][1:3] == ["done", "1/1"]
    assert f"{POSTS}: a model that could not be loaded" in " ".join(text.split())
    assert "(own.py:5)" in text
    assert max(map(len, text.splitlines())) <= columns


def test_tables_and_lines_of_a_known_optimum_have_the_unit_of_the_game_and_the_regret(folder: Path) -> None:
    [game] = json.loads(call("runs", str(folder / GAME), "--json").stdout)
    assert game["mean_return"] + game["regret"] == pytest.approx(-5.737)
    shown = [f"{game['mean_return']:.2f}", f"{game['regret']:.2f}"]
    trained = (folder.parent / "trained.txt").read_text().splitlines()
    assert any(f"return {shown[0]} (regret {shown[1]})" in line for line in trained)  # progress
    [reported] = [line for line in trained if "return before" in line]
    assert f"after {shown[0]}: " in reported
    assert reported.endswith(f"(optimum -5.74, regret {shown[1]})")
    pages = [(folder / GAME / name).read_text() for name in ("report.md", "report.html")]
    for text in (call("runs", str(folder)).stdout, call("report", str(folder / GAME)).stdout, *pages):
        assert all(value in text for value in shown)
    for line in pages[0].splitlines():
        names = [name.strip() for name in line.split("|")[1:-1]]
        assert not line.startswith("| method") or len(set(names)) == len(names)


def test_a_game_that_is_being_trained_shows_the_newest_step_in_its_unit(folder: Path) -> None:
    [result] = (folder / GAME).rglob("result.json")
    [log] = (folder / GAME).rglob("train.jsonl")
    aside = result.rename(result.with_name("aside"))
    [game] = json.loads(call("runs", str(folder / GAME), "--json").stdout)
    aside.rename(result)
    assert game["mean_return"] == json.loads(log.read_text())["mean_return"]
    assert game["mean_return"] + game["regret"] == pytest.approx(-5.737)


def test_published_numbers_stand_beside_published_or_embedded_tasks_only(folder: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": i, "prompt": f"text {i}"}) + "\n" for i in range(9)))
    for name, option in {"both": "--tasks", "test": "--eval-tasks"}.items():
        call("train", "tldr-v0", "--steps", "0", *SHORT, "--out", str(tmp_path / name), option, str(rows))
    for page in ("report.md", "report.html"):
        texts = [(run / page).read_text() for run in (folder / POSTS, tmp_path / "both", tmp_path / "test")]
        assert ["Qwen3-1.7B" in text for text in texts] == [True, False, False]
