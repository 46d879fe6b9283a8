"""Batches that are sampled beside updates, with the weights of then."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ahead import SAMPLING, STEPS, one_after_the_other, trained
from models import AGENTS, language_model, match, same, softmax_team
from placing import Nearby, cell, outcome

from llm_dec_pomdp.agents.base import Team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.algorithms.staged import Stage, Staged
from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.checks import check_models
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.training import TrainerConfig, train
from llm_dec_pomdp.training.workers import Transport
from llm_dec_pomdp.training.workers.process import Processes


def model_of(agent: str) -> Team:
    return Team({agent: language_model(seed=3)})


def local() -> Team:
    return Team({agent: model_of(agent).members[agent] for agent in AGENTS})


def placed(executor: Transport) -> Team:
    return Team({agent: executor.place([agent], partial(model_of, agent)) for agent in AGENTS})


@pytest.mark.parametrize(
    ("k", "executor"), [(1, Nearby), (2, Nearby), pytest.param(2, Processes, marks=pytest.mark.slow)]
)
def test_a_batch_is_drawn_with_the_weights_of_k_updates_before(k: int, executor: type[Transport]) -> None:
    wanted, learnt = one_after_the_other(local(), k)
    with executor() as workers:
        texts, ends, metrics = trained(placed(workers), k)
    assert texts == wanted
    assert same(ends, learnt)
    assert [m["staleness"] for m in metrics] == [min(n, k) for n in range(STEPS)]
    assert texts != one_after_the_other(local(), 0)[0]


def test_a_resumed_run_learns_from_the_batches_that_were_there(tmp_path: Path) -> None:
    def run() -> tuple[list[list[str]], Any]:
        with Nearby() as workers:
            texts, learnt, _ = trained(placed(workers), 2, folder=tmp_path)
        return texts, learnt

    whole, learnt = run()
    shutil.rmtree(tmp_path / f"step-{STEPS:06d}")  # as if it had been killed in the last step
    rest, again = run()
    assert rest == whole[-1:]
    assert same(again, learnt)


def test_what_cannot_be_drawn_beside_updates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Softmax cannot sample.*staleness"):
        trained(softmax_team(), 1)
    learner = MAGRPO(softmax_team(), SAMPLING, MAGRPOConfig(importance="none"))
    with pytest.raises(ValueError, match=r"importance is 'none'.*staleness"):
        learner.expect(3, stale=True)
    with pytest.raises(ValueError, match=r"staleness.*stage"):
        Staged([Stage(learner, 1)]).expect(3, stale=True)
    crossed = MAGRPO(softmax_team(), SAMPLING, MAGRPOConfig(credit="crossed"))
    with pytest.raises(ConfigError, match="staleness is 1, but MAGRPO samples more than trajectories"):
        train(crossed, match(), SAMPLING, TrainerConfig(steps=1, staleness=1), 0)
    asked = cell({"id": "keys-v0"}, {"name": "mgrpo"}, {"name": "builtin:words"}, 2, staleness=1)
    with pytest.raises(ConfigError, match="staleness is 1, executor 'local' and engine 'none'"):
        check_models([asked])
    check_models([asked], executor="processes")


@pytest.mark.slow
def test_a_cell_is_trained_with_it(tmp_path: Path) -> None:
    keys = {"id": "keys-v0", "options": {"delegations": 2, "entities": 4}}
    asked = cell(keys, {"name": "mgrpo"}, {"name": "builtin:words"}, 4, staleness=1)
    run_cell(asked, tmp_path, tracking=(), executor="processes")
    assert [line["metrics"]["staleness"] for line in outcome(tmp_path)["train.jsonl"]] == [0, 1, 1, 1]
