"""on_divergence: stop and rollback with learning rates that damage the weights, resumes, records, and bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from models import same, weights
from placing import cell, outcome, ran

import llm_dec_pomdp
from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.algorithms.base import Algorithm
from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.suite import Cell
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.options import EvaluationConfig, TrainerConfig
from llm_dec_pomdp.report.findings import findings
from llm_dec_pomdp.results.runs import CellRecord
from llm_dec_pomdp.storage.reading import read_json
from llm_dec_pomdp.training import DivergedError, TrainingStep, train
from llm_dec_pomdp.training.divergence import DivergenceMonitor

ENV = llm_dec_pomdp.make("pennies-v0")
ONCE: dict[str, Any] = {"learning_rate": 3.0, "warmup": 5}  # 0.6, 1.2, ... of these only a third is small enough
KILL = 4


class KilledError(Exception):
    """What ends a run without a word."""


def trained(folder: Path | None, kill: bool = False, steps: int = 6, **options: Any) -> tuple[Team, list[TrainingStep]]:
    """Train tables with a checkpoint after every update; `kill` raises after some updates."""
    team, seen = llm_dec_pomdp.load_team(ENV, "builtin:table"), list[TrainingStep]()

    def on_step(step: TrainingStep) -> None:
        seen.append(replace(step, seconds_rollout=0.0, seconds_update=0.0))
        if kill and step.number == KILL:
            raise KilledError

    size: dict[str, Any] = {"steps": steps, "prompts_per_step": 1, "group_size": 8, "save_every": 1, "seed": 1}
    llm_dec_pomdp.train(team, ENV, on_step=on_step, checkpoints=folder, **size, **options)
    return team, seen


def test_stop_ends_the_run_before_the_damage_is_saved(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=r"step 2: .*learning rate 3"):
        trained(tmp_path, on_divergence="stop", **ONCE)
    assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-000001"]


def test_a_rollback_repeats_the_updates_after_the_checkpoint_with_a_third_of_the_rate(tmp_path: Path) -> None:
    team, seen = trained(tmp_path / "back", on_divergence="rollback", **ONCE)
    assert [step.number for step in seen] == [1, 2, 3, 4, 5, 6]
    assert [step.learning_rates["agent_0"] for step in seen] == [3.0, *[1.0] * 5]
    alone, _ = trained(tmp_path / "alone", on_divergence="rollback", learning_rate=2.0)  # diverges at once
    third, _ = trained(tmp_path / "third", learning_rate=2.0 / 3)
    assert same(weights(alone), weights(third))
    assert not same(weights(team), weights(third))


def test_a_killed_run_continues_with_the_same_numbers_after_a_rollback(tmp_path: Path) -> None:
    whole, seen = trained(tmp_path / "whole", on_divergence="rollback", **ONCE)
    with pytest.raises(KilledError):
        trained(tmp_path / "parts", kill=True, on_divergence="rollback", **ONCE)
    parts, rest = trained(tmp_path / "parts", on_divergence="rollback", **ONCE)
    assert rest == seen[KILL - 1 :]
    assert same(weights(parts), weights(whole))


@pytest.mark.parametrize(("rate", "at"), [(100.0, "1, 1"), (1e38, "2, 1")])  # 1e38: weights that are not finite
def test_a_run_that_diverges_a_third_time_ends(rate: float, at: str, tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=rf"2 times before \(at steps {at}\)"):
        trained(tmp_path, on_divergence="rollback", learning_rate=rate)


def test_a_run_records_its_rollbacks_and_its_report_names_them(tmp_path: Path) -> None:
    def run(steps: int) -> Cell:
        method = {"name": "magrpo", "options": {"learning_rate": 2.0}}
        whole = cell({"id": "pennies-v0"}, method, {"name": "builtin:table"}, steps, on_divergence="rollback")
        training = whole.training.model_copy(update={"group_size": 8})
        return replace(whole, training=training, evaluation=EvaluationConfig(samples=2))

    whole = ran(run(4), tmp_path / "whole", "local")
    run_cell(run(3), tmp_path / "parts", tracking=())
    run_cell(run(4), tmp_path / "parts", tracking=())
    assert outcome(tmp_path / "parts")["train.jsonl"] == whole["train.jsonl"]
    records = [read_json(tmp_path / folder / "rollbacks.json", list[dict[str, Any]]) for folder in ("whole", "parts")]
    assert records[0] == records[1]
    assert [(back["at"], back["to"]) for back in records[0]] == [(1, 0)]
    assert [line["number"] for line in whole["train.jsonl"]] == [1, 2, 3, 4]
    result = run_cell(run(4), tmp_path / "whole", tracking=())
    [warning] = findings([CellRecord(run(4), tmp_path / "whole", "run", result)]).alarms()
    assert "diverged at update 1" in warning
    assert "from update 0" in warning


def test_repeated_words_were_sampled_with_weights_of_an_earlier_update() -> None:
    monitor = DivergenceMonitor()
    shares = [0.9, 0.9, 0.1]
    found = [monitor.check(n, {"distinct_2": share}, {"agent_0": 0.1}) for n, share in enumerate(shares, 1)]
    assert [finding and finding.damaged for finding in found] == [None, None, 2]


class Bare(Algorithm):
    """A learner without updaters."""

    def update(self, groups: Any) -> dict[str, float]:
        return {}


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'retry'"):
        trained(tmp_path, on_divergence="retry")
    with pytest.raises(ConfigError, match="nothing is saved"):
        trained(None, on_divergence="rollback")
    from llm_dec_pomdp.training.checkpoint import Checkpoints

    team, config = llm_dec_pomdp.load_team(ENV, "builtin:table"), TrainerConfig(steps=1, on_divergence="rollback")
    with pytest.raises(ConfigError, match="Bare has no updaters"):
        train(Bare(team, Sampling()), ENV, Sampling(), config, 0, checkpoints=Checkpoints(tmp_path, {}))
