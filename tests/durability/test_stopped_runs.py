"""Runs on the command line that are stopped, listed, resumed and exported."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from models import save_model
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner, Result
from waiting import left_of, wait_until

from llm_dec_pomdp.agents.language_model.stepping import forward
from llm_dec_pomdp.benchmarks import cell as cells
from llm_dec_pomdp.benchmarks.runner import run_suite
from llm_dec_pomdp.benchmarks.suite import Suite
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.progress import Silent
from llm_dec_pomdp.report.text import write_report
from llm_dec_pomdp.results.listing import RunStatus, list_runs
from llm_dec_pomdp.storage.runfolder import read_lines
from llm_dec_pomdp.training.checkpoint import CheckpointError

SMALL = ["--model", "builtin:tiny", "--prompts", "2", "--group-size", "2", "--max-new-tokens", "24", "--items", "2"]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def output_of(result: Result) -> str:
    return " ".join(result.stderr.split())


# --- a training that is interrupted -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A run that got SIGTERM after its first steps, and what was seen while it ran."""
    folder = tmp_path_factory.mktemp("runs") / "mine"
    code = "from llm_dec_pomdp.cli import main; main()"
    arguments = ["train", "tldr-v0", *SMALL, "--steps", "500", "--out", str(folder)]
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: any(map(read_lines, folder.glob("cells/*/train.jsonl"))), process)
        seen: dict[str, Any] = {"run": list_runs(folder.parent)[0]}
        seen["second"] = call("train", "--resume", str(folder))
        seen["third"] = call("train", "tldr-v0", *SMALL, "--out", str(folder))
        os.kill(process.pid, signal.SIGTERM)
        _, seen["stderr"] = process.communicate(timeout=60)
        seen["code"] = process.returncode
        yield folder, seen
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_running_training_is_listed(stopped: tuple[Path, dict[str, Any]]) -> None:
    run = stopped[1]["run"]
    assert isinstance(run, RunStatus)
    assert (run.name, run.status, run.reason, run.steps) == ("mine", "running", "", 500)
    assert run.step >= 1
    assert run.return_percent is not None


@pytest.mark.slow
@pytest.mark.parametrize("which", ["second", "third"])
def test_a_second_trainer_on_the_folder_is_refused(which: str, stopped: tuple[Path, dict[str, Any]]) -> None:
    result = stopped[1][which]
    assert result.exit_code == 1
    assert str(stopped[0]) in output_of(result)


@pytest.mark.slow
def test_an_interrupted_training_ends_with_75_and_says_how_to_go_on(stopped: tuple[Path, dict[str, Any]]) -> None:
    folder, seen = stopped
    assert seen["code"] == 75
    assert f"llm-dec-pomdp train --resume {folder}" in " ".join(seen["stderr"].split())
    (run,) = json.loads(call("runs", str(folder.parent), "--json").stdout)
    assert (run["status"], run["reason"]) == ("interrupted", f"SIGTERM after step {run['step']}")
    assert "interrupted" in call("runs", str(folder.parent)).stdout
    (newest,) = folder.glob("cells/*/checkpoints/step-*")
    assert newest.name == f"step-{run['step']:06d}"


@pytest.mark.slow
def test_a_run_is_not_started_over_by_accident(stopped: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = stopped
    result = call("train", "tldr-v0", *SMALL, "--out", str(folder))
    assert result.exit_code == 2
    assert f"--resume {folder}" in output_of(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("train tldr-v0 --steps 0 --temperature 0.5 --resume", "sampling.temperature: 1.0 -> 0.5"),
        ("train --set gamma=1.0 --out elsewhere --resume", "--set, --out"),
        ("train --save-every -1 --resume", "--save-every = -1"),
        ("eval tldr-v0 --team", "not done"),  # its team is not saved yet
    ],
)
def test_resuming_with_other_options_names_what_differs(
    command: str, named: str, stopped: tuple[Path, dict[str, Any]]
) -> None:
    first, *words = command.split()
    size = SMALL if "--steps" in words else []
    result = call(first, *size, *words, str(stopped[0]))
    assert result.exit_code == 2
    assert named in output_of(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["arxiv-v0"], "environment.id: 'tldr-v0' -> 'arxiv-v0'"),
        (["tldr-v0", "--seed", "7", "--algorithm", "marloo"], "method.name: 'magrpo' -> 'marloo'; seed: 0 -> 7"),
    ],
)
def test_resuming_with_another_environment_or_seed_leaves_the_run_as_it_was(
    arguments: list[str], message: str, stopped: tuple[Path, dict[str, Any]]
) -> None:
    folder, _ = stopped
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    result = call("train", *arguments, *SMALL, "--steps", "500", "--resume", str(folder))
    assert result.exit_code == 2
    assert all(part in output_of(result) for part in message.split("; "))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


# --- a training that goes on ------------------------------------------------------------------------------------------

TINY = ["tldr-v0", "--prompts", "1", "--group-size", "2", "--max-new-tokens", "8", "--items", "1", "--device", "cpu"]


@pytest.mark.slow
def test_a_finished_run_goes_on_to_more_steps_and_is_that_of_a_longer_one(tmp_path: Path) -> None:
    short, alone = tmp_path / "short", tmp_path / "alone"
    assert call("train", *TINY, "--steps", "1", "--out", str(short)).exit_code == 0
    more = ["--resume", str(short), "--steps", "2", "--save-every", "1", "--eval-every", "1"]
    result = call("train", *more)
    assert result.exit_code == 0, result.output
    assert call("train", *TINY, "--steps", "2", "--eval-every", "1", "--out", str(alone)).exit_code == 0
    longer, straight = files(short), files(alone)
    for found in (longer, straight):
        found["results"][0]["cell"]["training"].pop("save_every")
    assert longer == straight
    (run,) = list_runs(short)
    assert run.progress_text == "2/2"
    assert call("train", *more[:-4]).exit_code == 0  # done: nothing is left to do
    assert files(short)["results"][0]["cell"]["training"]["save_every"] == 1


@pytest.mark.slow
def test_a_stopped_run_may_end_early_and_is_that_of_a_shorter_one(
    stopped: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    short, alone = tmp_path / "short", tmp_path / "alone"
    shutil.copytree(stopped[0], short)
    steps = str(list_runs(short)[0].step)
    assert call("train", "--resume", str(short), "--steps", steps).exit_code == 0
    assert call("train", "tldr-v0", *SMALL, "--steps", steps, "--out", str(alone)).exit_code == 0
    assert files(short) == files(alone)
    less = call("train", "--resume", str(short), "--steps", "0")
    assert less.exit_code == 2
    assert f"training.steps: {steps} -> 0" in output_of(less)


def test_an_evaluation_is_no_training_to_resume_and_its_team_is_none(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert call("eval", "tldr-v0", *TINY[5:], "--out", str(run)).exit_code == 0
    assert "eval --resume" in output_of(call("train", "--resume", str(run)))
    assert str(run) in output_of(call("eval", "tldr-v0", "--team", str(run)))
    (found,) = list_runs(tmp_path)
    assert found.progress_text == ""


@pytest.mark.slow
def test_a_team_can_be_exported_while_it_is_not_done(stopped: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = stopped
    result = call("export", str(folder), str(tmp_path / "team"))
    assert result.exit_code == 0, result.output
    for agent in ("agent_0", "agent_1"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "team" / agent)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "environment"),
        (["runs", "nowhere"], "'nowhere'"),
        (["export", "nowhere", "out"], "'nowhere'"),
    ],
)
def test_what_cannot_be_resumed_is_told(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert result.exit_code == 2
    assert message in output_of(result)
    assert list(tmp_path.iterdir()) == []


# --- a training that diverges -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_training_that_diverges_ends_with_3(tmp_path: Path) -> None:
    """With this rate the first step leaves the range in which gradients are finite."""
    options = ["--steps", "6", "--set", "learning_rate=1e30", "--out", str(tmp_path / "run")]
    result = call("train", "tldr-v0", *SMALL, *options)
    assert result.exit_code == 3, output_of(result)
    (run,) = list_runs(tmp_path)
    assert run.status == "failed"
    assert run.reason.startswith("DivergedError: step")


# --- a benchmark ------------------------------------------------------------------------------------------------------

SUITE = Suite.model_validate(
    {
        "name": "three",
        "methods": [{"name": "concat"}, {"name": "magrpo"}, {"name": "single"}],
        "models": [{"name": "builtin:tiny"}],
        "environments": [{"id": "tldr-v0"}],
        "sampling": {"max_new_tokens": 24},
        "training": {"steps": 3, "prompts_per_step": 2, "group_size": 2, "save_every": 1},
        "evaluation": {"items": 2, "every": 1},
    }
)


def timeless(value: Any) -> Any:
    """Without what a clock measured."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if "second" not in k}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def files(folder: Path) -> dict[str, Any]:
    """What has to be equal: results, logs and texts."""
    found: dict[str, Any] = {"results": timeless(json.loads((folder / "results.json").read_text()))}
    for path in sorted(folder.glob("cells/*/*.jsonl")):
        found[str(path.relative_to(folder))] = [timeless(line) for line in read_lines(path)]
    return found


def report_without_times(folder: Path) -> list[str]:
    """The report's lines; of the rows of the costs only the method, for the rest are times."""
    write_report(folder)
    lines = (folder / "report.md").read_text().splitlines()
    return [line for line in lines if "|" not in line]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the suite's run that nothing stopped."""
    folder = tmp_path_factory.mktemp("alone")
    run_suite(SUITE, folder, Silent())
    lines = [line for path in folder.glob("cells/*-magrpo-*/train.jsonl") for line in read_lines(path)]
    assert [line["metrics"]["skipped"] for line in lines] == [0.0] * 3
    return folder


RUN = """
import json, sys
from pathlib import Path
from llm_dec_pomdp.progress import Silent
from llm_dec_pomdp.benchmarks.runner import run_suite
from llm_dec_pomdp.benchmarks.suite import Suite

if __name__ == "__main__":
    run_suite(Suite.model_validate(json.loads(sys.argv[1])), Path(sys.argv[2]), Silent())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_benchmark_stopped_in_its_second_cell_goes_on_there(
    number: signal.Signals, alone: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.py").write_text(RUN)
    folder = tmp_path / "stopped"
    command = [sys.executable, str(tmp_path / "run.py"), json.dumps(SUITE.model_dump()), str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_until(lambda: any(map(read_lines, folder.glob("cells/*-magrpo-*/train.jsonl"))), process)
    os.kill(process.pid, number)
    process.wait(timeout=60)
    wait_until(lambda: not left_of(process.pid))  # a child notices that its runner has gone
    assert list_runs(folder)[0].status == "failed"
    (first,) = (folder / "cells").glob("*concat*")
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*") if path.is_file()}
    assert (first / "result.json") in before
    run_suite(SUITE, folder, Silent(), resume=True)
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*") if path.is_file()} == before
    assert files(folder) == files(alone)
    assert report_without_times(folder) == report_without_times(alone)
    assert list_runs(folder)[0].status == "done"

    again = json.loads((folder / "results.json").read_text())
    run_suite(SUITE, folder, Silent(), resume=True)
    assert json.loads((folder / "results.json").read_text()) == again


def test_a_result_of_another_configuration_is_not_taken(tmp_path: Path) -> None:
    cell = SUITE.cells()[0]
    cells.run_cell(cell, tmp_path / "cell")
    changed = Suite.model_validate({**SUITE.model_dump(), "sampling": {"max_new_tokens": 9}}).cells()[0]
    with pytest.raises(CheckpointError, match=r"sampling\.max_new_tokens: 24 -> 9"):
        cells.run_cell(changed, tmp_path / "cell")


# --- export -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")  # peft asks under an old name
def test_a_trained_team_of_adapters_loads_without_this_library(tmp_path: Path) -> None:
    model = save_model(tmp_path / "model", vocab_size=25)
    run, team = tmp_path / "run", tmp_path / "team"
    size = ["--steps", "2", "--sharing", "lora", "--model", model, "--set", "learning_rate=0.1"]
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps({"id": str(i), "prompt": "say one of the words"}) + "\n" for i in range(3)))
    source = ["--tasks", str(tasks), "--eval-tasks", str(tasks)]
    trained = call("train", "tldr-v0", *SMALL, *size, *source, "--out", str(run))
    assert trained.exit_code == 0, trained.output
    result = call("export", str(run), str(team))
    assert result.exit_code == 0, result.output
    assert "agent_0, agent_1" in result.stdout
    (place,) = run.glob("cells/*")
    mine = cells.build_cell(
        cells.Cell.from_dict(json.loads((place / "cell.json").read_text())).loaded(), place / "team"
    ).team
    for agent in ("agent_0", "agent_1"):
        folder = team / agent
        assert not (folder / "model.safetensors").exists()
        loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), folder).eval()
        tokens = AutoTokenizer.from_pretrained(folder)("say one of the words", return_tensors="pt")["input_ids"]
        ours = mine.members[agent].model  # type: ignore[attr-defined]
        with torch.no_grad():
            torch.testing.assert_close(loaded(tokens).logits, forward(ours, [agent], input_ids=tokens).logits)
        card = (folder / "README.md").read_text()
        assert "`magrpo` on `tldr-v0` for 2\nupdates" in card
        assert f'PeftModel.from_pretrained(base, "{agent}")' in card
    assert call("export", str(run), str(team)).exit_code == 2
