"""Published results can be recomputed from raw data, and their measurements can be run again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from llm_dec_pomdp.agents.io.load import read_members
from llm_dec_pomdp.benchmarks.suite import load_suite
from llm_dec_pomdp.envs import make
from llm_dec_pomdp.rollout.preferences import Preferences

ROOT = Path(__file__).resolve().parents[2]
RESEARCH = ROOT / "research"


@pytest.mark.parametrize(
    ("script", "data", "page"),
    [
        ("regret_table", "classics", "classics"),
        ("solved_table", "hierarchy", "hierarchy"),
        ("draw_claims", "claims", "claims"),
        ("curricula_table", "curricula", "curricula"),
    ],
)
def test_a_table_computed_from_raw_data_is_on_its_page(script: str, data: str, page: str) -> None:
    command = [sys.executable, RESEARCH / f"{script}.py", RESEARCH / "data" / f"{data}.json.xz"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split("\n")
    published = (ROOT / "docs" / "results" / "archive" / f"{page}.md").read_text(encoding="utf-8").split("\n")
    assert len(rows) > 10
    assert set(rows) <= set(published)


def test_every_suite_and_team_of_a_measurement_loads() -> None:
    suites = sorted((RESEARCH / "suites").rglob("*.toml"))
    assert len(suites) > 20
    for path in suites:
        assert load_suite(str(path)).cells(), path
    assert read_members(RESEARCH / "arxiv_limits.toml").members


def test_published_episodes_are_pairs_for_preference_learning(tmp_path: Path) -> None:
    submissions = [str(ROOT / "board" / name) for name in ("script-best", "script-random")]
    command = [sys.executable, RESEARCH / "preferences.py", "tldr-v1", *submissions, "--out", tmp_path / "t"]
    subprocess.run(command, capture_output=True, check=True, timeout=120)
    env = make("tldr-v1", tasks=str(tmp_path / "t.tasks.jsonl"), split="all")
    pairs = Preferences(str(tmp_path / "t.traces.jsonl")).pairs()
    assert {item.id for item in env.items} == {*pairs}
    assert all(pair.chosen.total > pair.rejected.total for of_task in pairs.values() for pair in of_task)
