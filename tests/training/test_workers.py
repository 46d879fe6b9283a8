"""Wherever policies live, the numbers are the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from placing import cell, hierarchy, ran
from typer.testing import CliRunner

from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.cli import app

TLDR = {"id": "tldr-v0"}
TINY = {"name": "builtin:tiny"}
SEPARATE = cell(
    TLDR, {"name": "magrpo", "options": {"beta": 0.1, "minibatches": 2, "entropy": 0.01}}, TINY, 2, tokens=8
)
MEMBERS = [
    {"agents": ["agent_0"], "model": "builtin:tiny", "sharing": "lora", "learning_rate": 1e-3},
    {"agents": ["agent_1"], "model": "builtin:tiny", "train": False},
]
TIGER, TABLE = {"id": "dectiger-v0"}, {"name": "builtin:table"}
COPIED = {"name": "builtin:extractive"}
TEAMS = {
    "a model each": SEPARATE,
    "adapters on one model": cell(
        TLDR, {"name": "magrpo", "options": {"credit": "crossed"}}, {**TINY, "sharing": "lora"}, 2, tokens=8
    ),
    "adapters and a frozen member": cell(TLDR, {"name": "magrpo"}, {"name": "team", "members": MEMBERS}, 2, tokens=8),
    "tables": cell(TIGER, {"name": "magrpo"}, TABLE, 2),
    "preferences": cell(TIGER, {"name": "madpo"}, TABLE, 2),
    "a critic each": cell(TIGER, {"name": "iac", "options": {"critic_level": "token"}}, TABLE, 2),
    "a critic of the team": cell(TIGER, {"name": "maac", "options": {"estimates": "q"}}, TABLE, 2),
    "copied sentences and a critic": cell(TLDR, {"name": "maac"}, COPIED, 2),
}


# --- the same numbers -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_main_and_sub_agents_in_processes_of_their_own_learn_as_in_one(whole: dict[str, Any], tmp_path: Path) -> None:
    assert ran(hierarchy(), tmp_path) == whole
    assert [step["metrics"]["skipped"] for step in whole["train.jsonl"]] == [0] * 6
    assert len({step["texts"] for step in whole["train.jsonl"]}) == 6


@pytest.mark.slow
@pytest.mark.parametrize("of", TEAMS)
def test_a_team_in_processes_learns_as_in_one(of: str, tmp_path: Path) -> None:
    assert ran(TEAMS[of], tmp_path / "processes") == ran(TEAMS[of], tmp_path / "local", "local")


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [("local", "processes"), ("processes", "local")])
def test_a_run_goes_on_on_another_executor(first: str, then: str, whole: dict[str, Any], tmp_path: Path) -> None:
    run_cell(hierarchy(4), tmp_path, tracking=(), executor=first)
    assert ran(hierarchy(), tmp_path, then) == whole


def test_an_executor_whose_package_is_missing_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "llm_dec_pomdp.training.workers.on_ray", raising=False)
    done = CliRunner().invoke(app, ["train", "tldr-v0", "--executor", "ray", "--out", str(tmp_path / "run")])
    assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "'ray'" in " ".join(done.output.split())
