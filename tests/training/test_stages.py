"""Stages of a run: who plays which environment when, resumed bit for bit, what reports say, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from models import same, weights

from llm_dec_pomdp.algorithms.staged import Staged
from llm_dec_pomdp.benchmarks.cell import build_cell, run_cell
from llm_dec_pomdp.benchmarks.checks import check_cells
from llm_dec_pomdp.benchmarks.runner import run_folder
from llm_dec_pomdp.benchmarks.suite import Cell, Suite, load_suite
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.report.text import report_runs
from llm_dec_pomdp.rollout import Demonstrations, Trajectories
from llm_dec_pomdp.storage.runfolder import read_lines

SMALL = {"n_agents": 2, "days": 1, "hours": 2, "common": 1}
COLD = {"name": "imitation", "steps": 2, "options": {"source": "script:uniform"}}


def cell(steps: int = 4, *, method: str = "mgrpo", stages: Any = (COLD,), options: Any = (), **training: Any) -> Cell:
    """Two steps of imitation, then of another learner, on a small hierarchy."""
    values = {
        "name": "s",
        "environments": [{"id": "keys-v0", "options": {"delegations": 2, "entities": 4}}],
        "methods": [{"name": method, "stages": list(stages), "options": dict(options)}],
        "models": [{"name": "builtin:words", "device": "cpu"}],
        "sampling": {"max_new_tokens": 1},
        "training": {"steps": steps, "prompts_per_step": 2, "group_size": 3, "save_every": 1, **training},
        "evaluation": {"items": 2},
    }
    [only] = build(Suite, values, source="test").cells()
    return only


@pytest.mark.parametrize("method", ["mgrpo", "grpo"])
def test_each_stage_plays_and_learns_for_its_steps(method: str, tmp_path: Path) -> None:
    run_cell(cell(method=method), tmp_path / "run", tracking=())
    steps = read_lines(tmp_path / "run" / "train.jsonl")
    assert [step["metrics"]["stage"] for step in steps] == [1, 1, 2, 2]
    assert ["cross_entropy" in step["metrics"] for step in steps] == [True, True, False, False]
    setup = build_cell(cell(method=method))
    assert isinstance(setup.algorithm, Staged)
    played = []
    for updates in range(4):
        setup.algorithm.updates = updates
        played.append(type(setup.algorithm.rollout))
    assert played == [Demonstrations, Demonstrations, Trajectories, Trajectories]


@pytest.mark.parametrize("stop", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_run_goes_on_bit_for_bit_within_and_between_stages(stop: int, tmp_path: Path) -> None:
    options = {"beta": 0.1}  # to the team that the first stage leaves
    run_cell(cell(options=options), tmp_path / "whole", tracking=())
    run_cell(cell(stop, options=options), tmp_path / "parts", tracking=())
    run_cell(cell(options=options), tmp_path / "parts", tracking=())
    found = [weights(build_cell(cell(), tmp_path / name / "team").team) for name in ("whole", "parts")]
    assert same(*found)
    texts = [[step["texts"] for step in read_lines(tmp_path / name / "train.jsonl")] for name in ("whole", "parts")]
    assert texts[0] == texts[1]


def curriculum(stage: dict[str, Any], steps: int = 4, *, model: str = "builtin:table", **options: Any) -> Cell:
    """Two updates with a changed environment, then the remaining ones on two people with two hours and three turns."""
    values = {
        "name": "c",
        "environments": [{"id": "meeting-v0", "options": SMALL | options, "max_turns": 3}],
        "methods": [{"name": "magrpo", "stages": [{"steps": 2, "environment": stage}]}],
        "models": [{"name": model, "sharing": "separate", "device": "cpu"}],
        "sampling": {"max_new_tokens": 1},
        "training": {"steps": steps, "prompts_per_step": 2, "group_size": 3, "save_every": 1},
        "evaluation": {"items": 2},
    }
    [only] = build(Suite, values, source="test").cells()
    return only


def test_a_stage_plays_its_own_environment_with_the_learner_of_the_next_stage(tmp_path: Path) -> None:
    run = curriculum({"max_turns": 1, "options": {"hours": 2}})
    assert Cell.from_dict(json.loads(json.dumps(run.to_dict()))).loaded() == run
    algorithm = build_cell(run).algorithm
    assert isinstance(algorithm, Staged)
    assert algorithm.stages[0].learner is algorithm.stages[1].learner
    result = run_cell(run, tmp_path / "run", tracking=())
    steps = read_lines(tmp_path / "run" / "train.jsonl")
    assert [step["metrics"]["generations"] for step in steps] == [2 * 3 * 2 * turns for turns in (1, 1, 3, 3)]
    assert result.summary.measured["dialogue"]["turns"].mean > 1  # evaluations have the environment of the run


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_curriculum_resumes_bit_for_bit_within_and_between_its_stages(stop: int, tmp_path: Path) -> None:
    def run(steps: int, name: str) -> None:
        cell = curriculum({"max_turns": 2, "options": {"n_agents": 2}}, steps, n_agents=3)
        run_cell(cell, tmp_path / name, tracking=())

    run(4, "whole")
    run(stop, "parts")
    run(4, "parts")
    texts = [[step["texts"] for step in read_lines(tmp_path / name / "train.jsonl")] for name in ("whole", "parts")]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("stage", "named"),
    [
        ({"options": {"n_agents": 3}}, "agent_2"),
        ({"options": {"hours": 3}}, "BOOK Monday 11"),
        ({"max_turns": 1, "options": {"nonsense": 1}}, "nonsense"),
    ],
)
def test_a_stage_that_the_team_cannot_play_is_refused_before_the_run(stage: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        check_cells([curriculum(stage)])


def test_words_of_a_harder_stage_are_refused_for_a_model_of_words() -> None:
    with pytest.raises(ConfigError, match="Tuesday"):
        check_cells([curriculum({"options": {"days": 2}}, model="builtin:words")])


def test_a_stage_keeps_the_scorer_of_the_run() -> None:
    with pytest.raises(ConfigError, match="judge"):
        curriculum({"options": {"judge": "builtin:tiny"}})


def test_stages_that_leave_the_method_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 of 2 steps"):
        check_cells([cell(2)])
    with pytest.raises(ConfigError, match="concat"):
        check_cells([cell(stages=({"name": "concat", "steps": 1},))])


@pytest.mark.parametrize("name", ["hierarchy", "hierarchy_context"])
def test_the_suites_of_hierarchies_can_run(name: str) -> None:
    check_cells(load_suite(name, ["seeds=[0]"]).cells())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "labels"),
    [pytest.param("script:uniform", "no labels", marks=pytest.mark.slow), ("script:optimal", "with labels")],
)
def test_every_report_says_which_stage_used_labels(source: str, labels: str, tmp_path: Path) -> None:
    stages = [{**COLD, "options": {"source": source}}]
    with run_folder(tmp_path):
        for trained_cell in (cell(3, stages=stages), cell(1, stages=())):
            run_cell(trained_cell, tmp_path / "cells" / trained_cell.label, tracking=())
    found, _ = report_runs([tmp_path], tmp_path)
    row = {"stage 1": f"imitation, updates 1-2, {labels}", "stage 2": "mgrpo, updates 3-3, no labels"}
    assert [line["sections"].get("stages") for line in found.to_dict()["lines"]] == [row, None]
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert all(value in text for value in row.values())
