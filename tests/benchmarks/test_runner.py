"""A small suite from start to report, with the built-in model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from evaluated import last_episodes

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.io.load import MemberConfig
from llm_dec_pomdp.benchmarks.cell import build_cell, evaluate, read_lines
from llm_dec_pomdp.benchmarks.result import is_done
from llm_dec_pomdp.benchmarks.runner import run_suite
from llm_dec_pomdp.benchmarks.suite import Cell, EnvironmentConfig, MethodConfig, ModelConfig, Suite, load_suite
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.options import EvaluationConfig
from llm_dec_pomdp.progress import Silent
from llm_dec_pomdp.report.text import write_report
from llm_dec_pomdp.results.runs import read_run
from llm_dec_pomdp.storage.runfolder import new_run_folder
from llm_dec_pomdp.training import TrainerConfig
from llm_dec_pomdp.types import Group


def test_results_hold_every_cell_in_order(small: Suite, run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    wanted = [(cell.environment.id, cell.method.name) for cell in small.cells()]
    assert [(r["cell"]["environment"]["id"], r["cell"]["method"]["name"]) for r in results] == wanted
    assert all(0 <= r["summary"]["return_percent"]["mean"] <= 100 for r in results)
    assert all(r["summary"]["latency"]["mean"] > 0 for r in results)
    assert results[-1]["roles"] == {"agent_0": "aux", "agent_1": "main"}


def test_the_run_folder_says_what_ran(run: Path) -> None:
    versions = json.loads((run / "versions.json").read_text())
    assert {"llm_dec_pomdp", "commit", "packages", "torch", "python", "processor"} <= versions.keys()
    assert {"limits", "namespaces", "landlock", "seccomp"} == versions["judge"]["layers"].keys()
    assert json.loads((run / "suite.json").read_text())["name"] == "small"
    assert (run / "commands.txt").read_text().strip()


def test_every_episode_is_written_down(small: Suite, run: Path) -> None:
    for cell in small.cells():
        episodes = last_episodes(run / "cells" / cell.label)
        assert len(episodes) == 2
        for episode in episodes:
            assert episode.final is not None
            assert episode.turns[-1].reward == pytest.approx(sum(episode.final.components.values()))


def test_learners_leave_curves_and_weights_and_baselines_do_not(small: Suite, run: Path) -> None:
    for cell in small.cells():
        folder = run / "cells" / cell.label
        learns = cell.method.name == "magrpo"
        points = [(point["step"], point["training_episodes"]) for point in read_lines(folder / "curve.jsonl")]
        assert points == ([(0, 0), (1, 4), (2, 8)] if learns else [])
        assert [line["number"] for line in read_lines(folder / "train.jsonl")] == ([1, 2] if learns else [])
        assert (folder / "team" / "team.json").exists() == learns


def test_the_returns_per_task_are_those_of_the_summary(run: Path) -> None:
    for entry in read_run(run).entries:
        assert entry.result is not None
        mean = sum(entry.returns().values()) / len(entry.returns())
        assert mean == pytest.approx(entry.result.summary.return_percent.mean)


def test_the_markdown_report_has_a_table_per_environment(run: Path) -> None:
    report = (run / "report.md").read_text()
    assert "## tldr-v0" in report
    assert "## coophumaneval-v0" in report
    assert "at least 3 seeds" in report
    assert "magrpo 94.5 % (2 x Qwen3-1.7B)" in report
    assert (
        "does not mean that a text makes sense" in (run / "report.html").read_text()
    )  # of a high distinct-2, which random words have too
    assert "![Test return during training](curves.png)" in report
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_trained_team_can_be_loaded_and_says_the_same(small: Suite, run: Path) -> None:
    cell = next(cell for cell in small.cells() if cell.method.name == "magrpo")
    folder = run / "cells" / cell.label
    groups: list[Group] = []
    evaluate(cell, build_cell(cell, weights=folder / "team"), Silent(), "", groups.extend)
    texts = [[c.text for c in turn.actions.values()] for e in last_episodes(folder) for turn in e.turns]
    again = [[c.text for c in turn.actions.values()] for g in groups for e in g.episodes for turn in e.turns]
    assert again == texts


def test_all_methods_are_measured_on_the_same_tasks(small: Suite, run: Path) -> None:
    tasks = {
        tuple(episode.item_id for episode in last_episodes(run / "cells" / cell.label))
        for cell in small.cells()
        if cell.environment.id == "tldr-v0"
    }
    assert len(tasks) == 1


def test_an_evaluation_without_a_number_of_items_takes_every_row_of_its_split() -> None:
    cell = Cell(
        EnvironmentConfig(id="tldr-v0"),
        MethodConfig(name="concat"),
        ModelConfig(members=[MemberConfig(agents=["summary", "elaboration"], model="script:random")]),
        0,
        Sampling(max_new_tokens=1),
        TrainerConfig(),
        EvaluationConfig(),
    )
    groups: list[Group] = []
    evaluate(cell, build_cell(cell), Silent(), "", groups.extend)
    rows = [item.id for item in llm_dec_pomdp.make("tldr-v0", split="test").items]
    assert [g.item_id for g in groups] == rows
    assert len(rows) > 4


def test_new_run_folders_do_not_collide(tmp_path: Path) -> None:
    first = new_run_folder("x", tmp_path)
    first.mkdir()
    assert new_run_folder("x", tmp_path) != first


def test_a_run_folder_is_one_folder_whatever_its_name(tmp_path: Path) -> None:
    found = new_run_folder("train-acme/meet-v0:X", tmp_path)
    assert found.parent == tmp_path
    assert found.name.startswith("train-acme_meet-v0_X-")


def test_an_unknown_option_of_a_method_is_found_before_anything_runs(small: Suite, tmp_path: Path) -> None:
    methods = [small.methods[0], MethodConfig.model_validate({"name": "magrpo", "options": {"learning_rat": 1}})]
    broken = small.model_copy(update={"methods": methods})
    with pytest.raises(ConfigError, match=r"learning_rat.*learning_rate"):
        run_suite(broken, tmp_path / "run", Silent())
    assert not (tmp_path / "run").exists()


def test_an_executor_without_workers_is_refused_before_anything_is_made(small: Suite, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'local'"):
        run_suite(small, tmp_path / "run", Silent(), executor="local")
    assert not (tmp_path / "run").exists()


# --- cells that are done, that fail, that are killed ------------------------------------------------------------------


def stamps(folder: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("cells/*/result.json")}


@pytest.mark.slow
def test_a_resumed_run_repeats_only_what_is_not_done(small: Suite, run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    before, report = stamps(folder), (folder / "report.md").read_text()
    lost, changed, *_ = small.cells()
    (folder / "cells" / lost.label / "result.json").unlink()
    other = json.loads((folder / "cells" / changed.label / "result.json").read_text())
    other["cell"]["sampling"]["temperature"] = 0.5
    (folder / "cells" / changed.label / "result.json").write_text(json.dumps(other))
    assert not is_done(folder / "cells" / changed.label, changed)
    run_suite(small, folder, Silent(), resume=True, jobs=2)
    after = stamps(folder)
    assert {label for label in before if before[label] != after[label]} == {lost.label, changed.label}

    def returns(text: str) -> list[list[str]]:
        return [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| ")]

    assert returns((folder / "report.md").read_text()) == returns(report)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["evaluation.items=3"], r"evaluation\.items: 2 -> 3.*--overwrite"),
        (["seeds=[7]"], "arxiv_v0-concat-builtin_tiny-seed0, tldr_v0"),
    ],
)
def test_finished_cells_are_not_removed_unless_that_is_asked_for(
    settings: list[str], message: str, tmp_path: Path
) -> None:
    toml = tmp_path / "suite.toml"
    toml.write_text(
        'name = "s"\nmethods = [{ name = "concat" }]\nenvironments = [{ id = "tldr-v0" }, { id = "arxiv-v0" }]\n'
        'evaluation = { items = 2 }\nmodels = ["builtin:tiny"]\n'
    )
    folder = tmp_path / "run"
    for cell in load_suite(str(toml)).cells():
        place = folder / "cells" / cell.label
        place.mkdir(parents=True)
        (place / "cell.json").write_text(json.dumps(cell.to_dict()))
    (folder / "status.json").write_text("{}")
    before = sorted(folder.rglob("*"))
    with pytest.raises(ConfigError, match=message):
        run_suite(load_suite(str(toml), settings), folder, Silent(), resume=True)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.slow
def test_cells_of_another_configuration_are_run_again_when_that_is_asked_for(small: Suite, tmp_path: Path) -> None:
    suite = small.model_copy(update={"methods": small.methods[1:2], "environments": small.environments[:1]})
    run_suite(suite, tmp_path / "run", Silent())
    evaluation = suite.evaluation.model_copy(update={"items": 3})
    changed = suite.model_copy(update={"evaluation": evaluation})
    run_suite(changed, tmp_path / "run", Silent(), resume=True, overwrite=True)
    (entry,) = read_run(tmp_path / "run").entries
    assert entry.result is not None
    assert entry.result.summary.episodes == 3


def test_an_environment_that_cannot_be_made_is_found_before_anything_runs(small: Suite, tmp_path: Path) -> None:
    wrong = small.environments[0].model_copy(update={"label": "wrong", "tasks": "none.jsonl"})
    with pytest.raises(ValueError, match=r"none\.jsonl"):
        run_suite(small.model_copy(update={"environments": [*small.environments, wrong]}), tmp_path / "r", Silent())
    assert not (tmp_path / "r").exists()


FAILING = '''
import os
import signal

from llm_dec_pomdp.algorithms.base import Algorithm


class Killed(Algorithm):
    """Its process dies as one does that is out of memory."""

    def __init__(self, team, sampling, config=None):
        os.kill(os.getpid(), signal.SIGKILL)


class Broken(Algorithm):
    """It cannot be made."""

    def __init__(self, team, sampling, config=None):
        raise RuntimeError("no such luck")
'''


@pytest.mark.slow
def test_a_cell_that_fails_or_is_killed_is_reported_and_the_others_run(
    small: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_methods.py").write_text(FAILING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("llm_dec_pomdp.training.workers.base.RESTARTS", 1)
    methods = [MethodConfig(name=f"failing_methods:{name}") for name in ("Killed", "Broken")]
    suite = small.model_copy(update={"methods": [*methods, small.methods[1]], "environments": small.environments[:1]})
    run_suite(suite, tmp_path / "run", Silent())
    killed, broken, concat = read_run(tmp_path / "run").entries
    assert "ended with signal SIGKILL (often: out of memory); this run has lost 2 workers" in killed.failure
    assert broken.failure.startswith("RuntimeError: no such luck (")
    assert "failing_methods.py:19, in __init__" in broken.failure
    assert concat.result is not None
    write_report(tmp_path / "run")
    for name in ("report.md", "report.html"):
        assert "no such luck" in (tmp_path / "run" / name).read_text()
