"""Training on the ranking of a judge: rewards, what is refused, and a run with a model on a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from servers import Server, reply
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.principles import Comparison
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.training.judged import WithJudge

ENV = llm_dec_pomdp.make("bandit-v0", slope=5.0)


class Letters:
    """A judge that prefers w3; it keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Comparison] = []

    def scores(self, comparisons: Sequence[Comparison]) -> list[list[float]]:
        self.asked += comparisons
        return [[float(text == "player acts: w3") for text in c.texts] for c in comparisons]

    def measured(self) -> dict[str, float]:
        return {"judge_calls": float(len(self.asked))}


def team() -> Team:
    return llm_dec_pomdp.load_team(ENV, "builtin:table")


def test_the_rewards_of_a_group_are_the_scores_of_its_distinct_texts() -> None:
    judge = Letters()
    learner = WithJudge(build_algorithm("magrpo", {}, team(), Sampling()), judge)
    ids = [item.id for item in ENV.items]
    groups = learner.rollout.play(ENV, learner.team, ids, range(8), Sampling(), 4)
    for group, asked in zip(groups, judge.asked, strict=True):
        assert len(asked.texts) == len(set(asked.texts))
        for episode in group.episodes:
            [completion] = episode.turns[0].actions.values()
            assert episode.total == float(completion.text == "w3")
            assert episode.final is not None and episode.final.total >= 5 * int(group.item_id[-1])
    judge.asked.clear()
    [alone] = learner.rollout.play(ENV, learner.team, ids[:1], [0], Sampling(), 1)
    assert (alone.episodes[0].total, judge.asked) == (0.5, [])


@pytest.mark.parametrize("algorithm", ["magrpo", "madpo"])
def test_a_team_learns_what_the_judge_prefers_and_not_the_reward(algorithm: str) -> None:
    trained, metrics = team(), list[Any]()
    llm_dec_pomdp.train(trained, ENV, algorithm, steps=15, prompts_per_step=8, judge=Letters(), on_step=metrics.append)
    [group] = llm_dec_pomdp.collect(trained, ENV, items=1, samples=20)
    assert sum(e.turns[0].actions["agent_0"].text == "w3" for e in group.episodes) > 15
    assert metrics[-1].metrics["judge_calls"] > 0
    assert all(0 <= step.mean_return <= 1 for step in metrics)


@pytest.mark.parametrize(
    ("env", "algorithm", "options", "message"),
    [
        ("pennies-v0", "magrpo", {}, "pennies-v0 has individual rewards"),
        ("bandit-v0", "magrpo", {"group_size": 1}, "group_size is 1"),
        ("bandit-v0", "magrpo", {"staleness": 1}, "staleness is 1"),
        ("bandit-v0", "magrpo", {"judge": "principles:x"}, "judge_model is ''"),
        ("bandit-v0", "magrpo", {"replacements": 1}, "plays Replaced"),
        ("dectiger-v0", "magrpo", {"tree": True}, "plays Tree"),
        ("bandit-v0", "imitation", {}, "is trained on given texts"),
    ],
)
def test_what_a_judge_cannot_replace_is_refused(env: str, algorithm: str, options: Any, message: str) -> None:
    made = llm_dec_pomdp.make(env)
    options = {"judge": Letters(), **options}
    if "staleness" in options:
        options |= {"judge": "principles:x", "judge_model": "m"}
    with pytest.raises(ConfigError, match=message):
        llm_dec_pomdp.train(
            llm_dec_pomdp.load_team(made, "builtin:table", sharing="separate"), made, algorithm, **options
        )


def test_a_run_keeps_its_principles_and_refuses_to_resume_with_others(server: Server, tmp_path: Path) -> None:
    server.answer = lambda body, number: reply("I prefer none.")
    rules, folder = tmp_path / "rules.txt", tmp_path / "run"
    rules.write_text("Say w3.")
    command = ["train", "bandit-v0", "--steps", "1", "--prompts", "2", "--samples", "1", "--out", str(folder)]
    command += ["--judge", f"principles:{rules}", "--judge-model", f"{server.url}#m"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    [cell] = (folder / "cells").iterdir()
    assert json.loads((cell / "principles.json").read_text()) == ["Say w3."]
    [step] = (cell / "train.jsonl").read_text().splitlines()
    assert json.loads(step)["metrics"]["judge_neutral"] == 1.0
    rules.write_text("Say w4.")
    resumed = CliRunner().invoke(app, ["train", "--resume", str(folder), "--steps", "2", "--trust"])
    assert resumed.exit_code == 2
    assert "has changed since" in resumed.output
