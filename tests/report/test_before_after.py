"""What a team wrote before and after its training, as a report shows it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page
from written_runs import make_cell, write_run

from llm_dec_pomdp.envs.registration import make
from llm_dec_pomdp.episodes import Header, TraceWriter
from llm_dec_pomdp.report.before_after import BeforeAfter, before_and_after
from llm_dec_pomdp.report.text import report_runs
from llm_dec_pomdp.results.lines import lines
from llm_dec_pomdp.results.runs import read_run
from llm_dec_pomdp.types import Completion, Episode, Score, Turn


def write_texts(cell: Path, file: str, *texts: str) -> None:
    """An evaluation of two agents that say these texts."""
    env = make("tldr-v0")
    actions = {a: Completion(t, (1,), (2,), (), False, 0.0) for a, t in zip(env.possible_agents, texts, strict=True)}
    turn = Turn(dict.fromkeys(actions, "a post"), actions, 1.5, Score(1.5, {"structure": 1.5}, {}, {}))
    episode = Episode(env.items[0].id, 0, (turn,), True)
    with TraceWriter(cell / file) as writer:
        writer.write_episode(episode, Header.of(env), env.items[0])


def run_with_texts(folder: Path) -> Path:
    """A run of a learner that keeps two evaluations, and of a baseline."""
    write_run(folder, (make_cell("magrpo"), 0.3), train_seconds=1.0)
    (learner,) = (folder / "cells").iterdir()
    result = json.loads((learner / "result.json").read_text())
    (learner / "result.json").write_text(json.dumps({**result, "roles": {"agent_0": "tl;dr", "agent_1": "summary"}}))
    shutil.rmtree(learner / "episodes")
    (learner / "episodes").mkdir()
    for step, text in ((0, "a grey cat"), (10, "a red cat")):
        write_texts(learner, f"episodes/step-{step}.jsonl", text, "one")
    return write_run(folder, (make_cell("concat"), 0.2))


def test_texts_of_the_least_and_the_most_trained_team_stand_under_the_roles(tmp_path: Path) -> None:
    learner, baseline = lines(read_run(run_with_texts(tmp_path / "run")).entries)
    texts = [("tl;dr", "a grey cat", "a red cat"), ("summary", "one", "one")]
    task = make("tldr-v0").items[0].id
    assert before_and_after(learner) == BeforeAfter("magrpo", 0, task, (0, 10), (1.5, 1.5), texts)
    assert before_and_after(baseline) is None


@pytest.mark.slow
def test_the_page_marks_the_words_that_differ(tmp_path: Path, opened: Callable[..., Page]) -> None:
    report_runs([run_with_texts(tmp_path / "run")], tmp_path / "out")
    page = opened(tmp_path / "out" / "report.html")
    page.get_by_text("Before and after", exact=True).click()
    assert page.locator(".texts h4").all_inner_texts() == ["tl;dr", "summary"]
    assert page.locator(".texts mark").all_inner_texts() == ["grey", "red"]
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert "**tl;dr**:" in (tmp_path / "out" / "report.md").read_text()
