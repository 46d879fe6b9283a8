"""A small suite from start to report, with the built-in model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_dec_pomdp.benchmarks.cell import build_cell, evaluate, read_lines
from llm_dec_pomdp.benchmarks.progress import Silent
from llm_dec_pomdp.benchmarks.runner import new_run_folder, run_suite
from llm_dec_pomdp.benchmarks.suite import Suite, load_suite
from llm_dec_pomdp.config import ConfigError

SMALL = """
name = "small"
methods = [{ name = "single" }, { name = "concat" }, { name = "magrpo" }]
environments = [{ id = "tldr-v0" }, { id = "coophumaneval-v0" }]
sampling = { max_new_tokens = 24 }
training = { steps = 2, prompts_per_step = 2, group_size = 2 }
evaluation = { items = 2, every = 1 }
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    path = tmp_path_factory.mktemp("suite") / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return load_suite(str(path))


@pytest.fixture(scope="module")
def run(small: Suite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "small"
    run_suite(small, folder, Silent())
    return folder


def test_results_hold_every_cell_in_order(small: Suite, run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    wanted = [(cell.environment.id, cell.method.name) for cell in small.cells()]
    assert [(r["cell"]["environment"]["id"], r["cell"]["method"]["name"]) for r in results] == wanted
    assert all(0 <= r["summary"]["return_percent"]["mean"] <= 100 for r in results)


def test_the_run_folder_says_what_ran(run: Path) -> None:
    versions = json.loads((run / "versions.json").read_text())
    assert {"llm_dec_pomdp", "torch", "python"} <= versions.keys()
    assert {"limits", "namespaces", "landlock", "seccomp"} == versions["judge"]["layers"].keys()
    assert json.loads((run / "suite.json").read_text())["name"] == "small"


def test_every_episode_is_written_down(small: Suite, run: Path) -> None:
    for cell in small.cells():
        episodes = read_lines(run / "cells" / cell.label / "episodes.jsonl")
        assert len(episodes) == 2
        for episode in episodes:
            assert episode["turns"][-1]["reward"] == pytest.approx(sum(episode["turns"][-1]["components"].values()))


def test_learners_leave_curves_and_weights_and_baselines_do_not(small: Suite, run: Path) -> None:
    for cell in small.cells():
        folder = run / "cells" / cell.label
        learns = cell.method.name == "magrpo"
        steps = [point["step"] for point in read_lines(folder / "curve.jsonl")]
        assert steps == ([0, 1, 2] if learns else [])
        assert [line["number"] for line in read_lines(folder / "train.jsonl")] == ([1, 2] if learns else [])
        assert (folder / "team" / "team.json").exists() == learns


def test_the_report_has_a_table_per_environment_and_a_picture(run: Path) -> None:
    report = (run / "report.md").read_text()
    assert "## tldr-v0" in report
    assert "## coophumaneval-v0" in report
    assert "distinct-2" in report
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_trained_team_can_be_loaded_and_says_the_same(small: Suite, run: Path) -> None:
    cell = next(cell for cell in small.cells() if cell.method.name == "magrpo")
    folder = run / "cells" / cell.label
    groups, _ = evaluate(cell, build_cell(cell, weights=folder / "team"), Silent(), "")
    said = [list(turn["actions"].values()) for e in read_lines(folder / "episodes.jsonl") for turn in e["turns"]]
    again = [[c.text for c in turn.actions.values()] for g in groups for e in g.episodes for turn in e.turns]
    assert again == said


def test_all_methods_are_measured_on_the_same_tasks(small: Suite, run: Path) -> None:
    tasks = {
        tuple(episode["task"] for episode in read_lines(run / "cells" / cell.label / "episodes.jsonl"))
        for cell in small.cells()
        if cell.environment.id == "tldr-v0"
    }
    assert len(tasks) == 1


def test_a_folder_with_something_in_it_is_refused(small: Suite, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="--out"):
        run_suite(small, tmp_path, Silent())
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_new_run_folders_do_not_collide(tmp_path: Path) -> None:
    first = new_run_folder("x", tmp_path)
    first.mkdir()
    assert new_run_folder("x", tmp_path) != first


def test_an_unknown_option_of_a_method_names_the_nearest(small: Suite) -> None:
    broken = small.model_copy(
        update={"methods": [small.methods[2].model_copy(update={"options": {"learning_rat": 1}})]}
    )
    with pytest.raises(ConfigError, match=r"options of magrpo.*\n.*did you mean learning_rate"):
        build_cell(broken.cells()[0])
