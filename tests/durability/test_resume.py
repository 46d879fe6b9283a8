"""A training that was stopped, in whatever way, goes on as if nothing had happened."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from evaluated import write_evaluation
from models import COLOURS, ITEMS, Colourful, language_model, same, save_model, weights

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.algorithms.registration import algorithms, find_algorithm
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.storage.files import pack
from llm_dec_pomdp.storage.signals import Interrupted, finishing
from llm_dec_pomdp.training.checkpoint import CheckpointError, Checkpoints
from llm_dec_pomdp.training.loop import (
    DivergedError,
    TrainerConfig,
    TrainingStep,
    restore,
    train,
)
from llm_dec_pomdp.types import Completion, Turn

REPOSITORY = Path(__file__).resolve().parents[2]
LEARNERS = [name for name in algorithms if find_algorithm(name).load().learns()]
LEARNERS.remove("imitation")  # of a teacher, which this task has not: see test_imitation
SAMPLING = Sampling(max_new_tokens=4)
STEPS = 6


class CrashError(Exception):
    """What ends a run without a word."""


class Run:
    """A training of two small language models, over more than one epoch, that can be built anew at any time."""

    def __init__(self, folder: Path, name: str = "magrpo", kind: Any = None, **config: Any) -> None:
        spec = find_algorithm(name)
        self.env: TextDecPOMDP = with_protocol(Colourful(ITEMS), spec.protocol)
        agents = self.env.possible_agents
        self.team = Team({agent: language_model(seed=3 + i) for i, agent in enumerate(agents)})
        options_of: dict[str, Any] = {
            "madpo": {"replay": 1},
            "reward_model": {"source": _pairs(folder.parent), "pairs": "all"},
            "distil": {"teacher": str(folder.parent / "teacher"), "epochs": 2},
        }
        if name == "distil" and not (folder.parent / "teacher").exists():
            save_model(folder.parent / "teacher", 9)
        passes = options_of.get(name, {"epochs": 2})
        options = spec.config({"learning_rate": 0.01, **passes, **config})
        self.learner: Any = (kind or spec.load())(self.team, SAMPLING, options)
        self.places = Checkpoints(folder / "checkpoints", {"learner": name})
        self.done = restore(self.learner, self.env, self.places)
        self.steps: list[Any] = []

    def go(self, on_step: Callable[[TrainingStep], Any] = lambda step: None, **options: Any) -> Run:
        def note(step: TrainingStep) -> None:
            self.steps.append(dataclasses.replace(step, seconds_rollout=0.0, seconds_update=0.0))
            on_step(step)

        config = TrainerConfig(**{"steps": STEPS, "prompts_per_step": 2, "group_size": 4, "save_every": 2, **options})
        with finishing("step") as stop:
            options = {"checkpoints": self.places, "done": self.done, "stop": stop}
            self.done = train(self.learner, self.env, SAMPLING, config, 5, note, **options)
        return self

    def state(self) -> tuple[Any, dict[str, torch.Tensor]]:
        tensors: dict[str, torch.Tensor] = {}
        return pack(self.learner.state_dict(), tensors), tensors


def _pairs(folder: Path) -> str:
    """Recorded episodes of every task, for a learner of recorded pairs."""
    rows = [
        (item.id, Turn({"agent_0": ""}, {"agent_0": Completion(f"{item.prompt} {word}")}, float(place)))
        for item in ITEMS
        for place, word in enumerate(COLOURS)
    ]
    if not (folder / "recorded").exists():
        write_evaluation(folder / "recorded", rows)
    return str(folder / "recorded")


def equal(first: Run, second: Run) -> bool:
    """Weights and everything the algorithm keeps, bit for bit."""
    (plain, tensors), (other_plain, other_tensors) = first.state(), second.state()
    assert tensors
    return same(weights(first.team), weights(second.team)) and plain == other_plain and same([tensors], [other_tensors])


def crash_at(number: int) -> Callable[[TrainingStep], None]:
    def on_step(step: TrainingStep) -> None:
        if step.number == number:
            raise CrashError

    return on_step


# --- the same run -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was not stopped."""
    return Run(tmp_path_factory.mktemp("alone")).go()


def killed_and_resumed(folder: Path, *of: Any, **options: Any) -> Run:
    """The crash is in the second epoch, the checkpoint in the first: 7 tasks, 2 per step."""
    killed = Run(folder, *of, **options)
    with pytest.raises(CrashError):
        killed.go(crash_at(5))
    resumed = Run(folder, *of, **options)
    assert resumed.done.step == 4
    before = resumed.done.seconds
    assert 0 < before < resumed.go().done.seconds
    assert killed.steps[4] == resumed.steps[0]
    resumed.steps = killed.steps[:4] + resumed.steps
    return resumed


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "name", [name if name in ("magrpo", "maac") else pytest.param(name, marks=pytest.mark.slow) for name in LEARNERS]
)
def test_a_resumed_run_equals_one_that_was_not_stopped(name: str, tmp_path: Path, alone: Run) -> None:
    whole = alone if name == "magrpo" else Run(tmp_path / "alone", name).go()
    resumed = killed_and_resumed(tmp_path / "killed", name)
    assert resumed.steps == whole.steps
    assert len({step.texts for step in whole.steps}) == STEPS
    assert equal(resumed, whole)
    assert not same(weights(whole.team), weights(Run(tmp_path / "new", name).team))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"beta": 0.1},  # a copy of the first weights is kept
        # The order of the samples depends on the number of the update.
        pytest.param({"entropy": 0.05, "minibatches": 2}, marks=pytest.mark.slow),
        pytest.param({"schedule": "cosine", "warmup": 2, "horizon": STEPS}, marks=pytest.mark.slow),
        pytest.param({"credit": "crossed"}, marks=pytest.mark.slow),
        pytest.param({"name": "iac", "critic_level": "token"}, marks=pytest.mark.slow),
        pytest.param({"credit": "counterfactual"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_resumed_run_equals_the_other_under_every_kind_of_option(options: dict[str, Any], tmp_path: Path) -> None:
    whole = Run(tmp_path / "alone", **options).go()
    resumed = killed_and_resumed(tmp_path / "killed", **options)
    assert resumed.steps == whole.steps
    assert all(step.metrics["skipped"] < 1 for step in whole.steps)
    assert equal(resumed, whole)


def test_a_run_can_be_stopped_after_every_step(tmp_path: Path, alone: Run) -> None:
    steps: list[Any] = []
    for number in range(1, STEPS + 1):
        run = Run(tmp_path)
        assert run.done.step == number - 1
        if number < STEPS:
            with pytest.raises(Interrupted):
                run.go(lambda step: os.kill(os.getpid(), signal.SIGTERM), save_every=0)
        else:
            run.go()
        steps += run.steps
    assert steps == alone.steps
    assert equal(run, alone)


def test_a_finished_run_has_nothing_left_to_do_and_refuses_other_tasks(alone: Run) -> None:
    again = Run(alone.places.folder.parent)
    assert again.go().steps == []
    assert equal(again, alone)
    assert again.done == alone.done
    again.env = Colourful(ITEMS[:3])
    with pytest.raises(CheckpointError, match=r"7 tasks.*3 tasks"):
        restore(again.learner, again.env, again.places)


def test_a_damaged_newest_checkpoint_costs_steps_and_changes_nothing(tmp_path: Path, alone: Run) -> None:
    with pytest.raises(CrashError):
        Run(tmp_path).go(crash_at(5))
    (tmp_path / "checkpoints" / "step-000004" / "state.safetensors").write_bytes(b"")
    resumed = Run(tmp_path)
    assert resumed.done.step == 2
    assert resumed.go().steps == alone.steps[2:]
    assert equal(resumed, alone)


# --- signals ----------------------------------------------------------------------------------------------------------


class Signalled(MAGRPO):
    """Is sent SIGTERM in its third rollout, update or save."""

    where = ""
    count = 0

    def send(self, where: str) -> None:
        self.count += where == self.where
        if where == self.where and self.count == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    def update(self, groups: Any) -> Any:
        self.send("update")
        return super().update(groups)

    def state_dict(self) -> dict[str, Any]:
        self.send("save")
        return super().state_dict()


@pytest.mark.every(3)
@pytest.mark.parametrize("where", ["rollout", "update", "save"])
def test_a_signal_lets_the_step_finish_and_saves(
    where: str, alone: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Signalled, "where", where)
    run = Run(tmp_path / "run", kind=Signalled)
    generate = run.team.generate
    monkeypatch.setattr(run.team, "generate", lambda *a: (run.learner.send("rollout"), generate(*a))[1])
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted) as caught:
        run.go(save_every=1)
    assert caught.value.code == 75
    assert caught.value.reason == "SIGTERM after step 3"
    assert signal.getsignal(signal.SIGTERM) is before
    monkeypatch.undo()
    resumed = Run(tmp_path / "run")
    assert resumed.done.step == 3
    assert resumed.go(save_every=1).steps == alone.steps[3:]
    assert same(weights(resumed.team), weights(alone.team))


def test_a_signal_in_the_last_save_still_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Signalled, "where", "save")
    with pytest.raises(Interrupted, match="75"):
        Run(tmp_path, kind=Signalled).go()  # saves after steps 2, 4 and 6
    assert Run(tmp_path).done.step == STEPS


# --- steps that are not finite ----------------------------------------------------------------------------------------


class Poisoned(MAGRPO):
    """The gradient of some updates is NaN."""

    bad: Sequence[int] = ()
    number = 0

    def update(self, groups: Any) -> Any:
        self.number += 1
        if self.number not in self.bad:
            return super().update(groups)
        hooks = [p.register_hook(lambda g: g * float("nan")) for q in self.team.trainable for p in q.parameters()]
        try:
            return super().update(groups)
        finally:
            for hook in hooks:
                hook.remove()


def test_a_bad_step_is_skipped_kept_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Poisoned, "bad", [2])
    seen: list[Any] = []
    run = Run(tmp_path, kind=Poisoned)
    run.go(lambda step: seen.append(weights(run.team)))
    assert same(seen[0], seen[1])
    assert not same(seen[1], seen[2])
    assert (run.done.bad, run.done.skipped) == (1, 0)
    (path,) = (tmp_path / "bad_steps").iterdir()
    kept = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert path.name == "step-000002.json"
    assert kept["metrics"]["grad_norm"] is None
    assert [len(group["episodes"]) for group in kept["groups"]] == [4, 4]
    completion = kept["groups"][0]["episodes"][0]["turns"][0]["actions"]["agent_0"]
    assert len(completion["token_ids"]) == len(completion["logprobs"]) > 0


def test_three_bad_steps_in_a_row_end_the_run_and_the_moments_are_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Poisoned, "bad", [2, 3, 4])
    run = Run(tmp_path, kind=Poisoned)
    with pytest.raises(DivergedError, match="step 4: 3 steps in a row"):
        run.go(save_every=1)
    assert len(list((tmp_path / "bad_steps").iterdir())) == 3
    assert all(tensor.isfinite().all() for tensor in run.state()[1].values())
    assert Run(tmp_path).done == dataclasses.replace(Run(tmp_path).done, step=3, skipped=2, bad=2)


def test_bad_steps_in_a_row_are_counted_over_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Poisoned, "bad", [1, 2])
    with pytest.raises(CrashError):
        Run(tmp_path, kind=Poisoned).go(crash_at(3))
    monkeypatch.setattr(Poisoned, "bad", [1])
    with pytest.raises(DivergedError, match="step 3: 3 steps in a row"):
        Run(tmp_path, kind=Poisoned).go()


# --- the command, killed ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_kill_9_at_a_random_moment_changes_nothing() -> None:
    """One of the trials of perf/resume_trials.py, which does twenty when it is run by hand."""
    script = REPOSITORY / "perf" / "resume_trials.py"
    done = subprocess.run(
        [sys.executable, script, *"--trials 1 --learner magrpo --tokens 12 --group 2 --seed 1 --json".split()],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    assert (found["trials"], found["equal"]) == (1, 1)
