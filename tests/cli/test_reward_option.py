"""A reward model from the command line: trained, found again by its run, and taken as the reward of another run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from evaluated import last_episodes
from tasks import references
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.agents.judges import load_judge, value
from llm_dec_pomdp.benchmarks.reward_models import LearnedScore
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.wrappers import LearnedReward
from llm_dec_pomdp.types import conversation

SHORT = ["--prompts", "2", "--group-size", "2", "--items", "1", "--max-new-tokens", "24", "--steps", "1", "--json"]


def train(*arguments: str) -> None:
    done = CliRunner().invoke(app, ["train", "tldr-v0", *arguments, *SHORT])
    assert done.exit_code == 0, done.output


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_run_of_a_reward_model_pays_another_run(tmp_path: Path) -> None:
    env = llm_dec_pomdp.make("tldr-v0", split="train")
    rows = [
        {"task": item.id, "chosen": references(env, item), "rejected": dict.fromkeys(references(env, item), "no")}
        for item in env.items
    ]
    pairs, judge, paid = tmp_path / "pairs.jsonl", tmp_path / "judge", tmp_path / "paid"
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    train("--algorithm", "reward_model", "--set", f"source={pairs}", "--set", "held_out=0", "--out", str(judge))
    train("--env", f'reward={{model="{judge}"}}', "--out", str(paid))
    [line] = [json.loads(line) for line in next(paid.glob("cells/*/train.jsonl")).read_text().splitlines()]
    [team] = judge.glob("cells/*/team")
    trained, history = LearnedScore(str(judge), 2), conversation("Which is better?")
    assert trained(history, "this one") == LearnedScore(str(team), 2)(history, "this one")
    assert trained(history, "this one") != value(*load_judge("builtin:tiny").log_likelihoods([history], ["this one"]))
    again = LearnedReward(llm_dec_pomdp.make("tldr-v0", split="test"), trained)
    for episode in last_episodes(next(paid.glob("cells/*"))):
        [turn] = episode.turns
        again.reset(options={"task_id": episode.item_id})
        _, rewards, *_ = again.step({agent: completion.text for agent, completion in turn.actions.items()})
        assert rewards["agent_0"] == pytest.approx(turn.reward, abs=1e-4)
        assert turn.score is not None
        assert turn.score.diagnostics["learned"] == turn.reward != turn.score.total
    assert line["mean_return"] < 0 or line["mean_return"] > 3


def test_a_reward_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cells" / "a").mkdir(parents=True)
    (tmp_path / "cells" / "a" / "cell.json").write_text("{}")
    wrong = {"rm": "'rm'", '{model="no/such/model"}': "no/such/model", '{weights="rm"}': "weights"}
    for reward, named in {**wrong, f'{{model="{tmp_path}"}}': str(tmp_path)}.items():
        done = CliRunner().invoke(app, ["train", "tldr-v0", "--env", f"reward={reward}", *SHORT])
        assert done.exit_code == 2
        assert named in "".join(done.output.split())
