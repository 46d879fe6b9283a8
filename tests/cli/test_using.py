"""What a user does with models and runs: scripts, saved teams, trackers, files, servers that are down."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from models import language_model, same, save_model, weights
from typer.testing import CliRunner, Result
from written_runs import run_here

import llm_dec_pomdp
from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.agents.io.save import CheckpointError
from llm_dec_pomdp.benchmarks.suite import load_suite
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.results.runs import read_run

NOBODY = "http://127.0.0.1:9/v1#x"
SMALL = "--items 2 --max-new-tokens 8 --device cpu --steps 1 --prompts 1 --group-size 2".split()
ONE_WORD = llm_dec_pomdp.Sampling(max_new_tokens=1)


def call(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=text, env={"COLUMNS": "200"})


def tiger() -> Any:
    return llm_dec_pomdp.make("dectiger-v0", max_turns=2)


def trained(**options: Any) -> Team:
    team = llm_dec_pomdp.load_team(tiger(), "builtin:table")
    llm_dec_pomdp.train(team, tiger(), steps=2, learning_rate=0.1, sampling=ONE_WORD, **options)
    return team


# --- scripts ----------------------------------------------------------------------------------------------------------


def test_a_script_is_a_model_on_the_command_line_and_in_suites(tmp_path: Path) -> None:
    options = ["--samples", "50", "--out", str(tmp_path / "run"), "--json"]
    found = json.loads(call("eval", "dectiger-v0", "--model", "script:optimal", *options).stdout)
    assert found["results"][0]["summary"]["return_percent"]["mean"] > 60
    suite = tmp_path / "suite.toml"
    suite.write_text('name = "s"\nmethods = ["concat"]\nenvironments = ["dectiger-v0"]\nmodels = ["script:optimal"]\n')
    run_here(load_suite(str(suite)), tmp_path / "bench")
    [entry] = read_run(tmp_path / "bench").entries
    assert entry.result is not None
    assert entry.result.summary.return_percent.mean > 60


# --- teams of different models ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_team_file_trains_on_the_command_line_and_a_wrong_one_leaves_no_run(tmp_path: Path) -> None:
    team, run = tmp_path / "team.toml", tmp_path / "run"
    mine = save_model(tmp_path / "mine", max_position_embeddings=1024)
    small = [option for option in SMALL if option not in ("--device", "cpu")]
    command = ["train", "tldr-v0", *small, "--team", str(team), "--out", str(run)]
    for members, message in (
        (f"summary = {mine!r}", "(elaboration) has no member"),
        (f"summary = {mine!r}\nelaboration = {mine!r}\nagent_0 = {mine!r}", "'agent_0' has two members"),
        (f"sumary = {mine!r}", "did you mean summary"),
    ):
        team.write_text(f"[members]\n{members}\n")
        refused = call(*command)
        assert refused.exit_code == 2
        assert message in refused.stderr
        assert not run.exists()
    team.write_text(f'[members]\nsummary = {mine!r}\nelaboration = "builtin:tiny"\n')
    assert call(*command).exit_code == 0
    assert sorted(path.name for path in run.glob("cells/*/team/agent_*")) == ["agent_0", "agent_1"]
    assert call("eval", "--team", str(run), "--out", str(tmp_path / "again")).exit_code == 0


# --- saved teams ------------------------------------------------------------------------------------------------------


def test_a_team_comes_back_from_wherever_it_was_saved(tmp_path: Path) -> None:
    team = trained(checkpoints=tmp_path / "many", save_every=1)
    llm_dec_pomdp.save_team(team, tmp_path / "saved")
    for place in ("saved", "many", "many/step-000002"):
        again = llm_dec_pomdp.load_team(tiger(), "builtin:table", weights=tmp_path / place)
        assert same(weights(team), weights(again)), place
    (tmp_path / "many" / "step-000002" / "agent_0" / "weights.safetensors").write_bytes(b"")
    first = llm_dec_pomdp.load_team(tiger(), "builtin:table", weights=tmp_path / "many" / "step-000001")
    newest = llm_dec_pomdp.load_team(tiger(), "builtin:table", weights=tmp_path / "many")
    assert same(weights(first), weights(newest))


@pytest.mark.slow
def test_a_team_that_copies_sentences_comes_back_from_its_run_and_is_not_exported(tmp_path: Path) -> None:
    run, env = tmp_path / "run", llm_dec_pomdp.make("tldr-v0")
    size = ["--steps", "1", "--prompts", "2", "--items", "2", "--max-new-tokens", "8"]
    assert call("train", "tldr-v0", *size, "--out", str(run)).exit_code == 0
    team = llm_dec_pomdp.load_team(env, weights=run)
    llm_dec_pomdp.save_team(team, tmp_path / "saved")
    assert same(weights(team), weights(llm_dec_pomdp.load_team(env, weights=tmp_path / "saved")))
    assert not same(weights(team), weights(llm_dec_pomdp.load_team(env)))
    refused = call("export", str(run), str(tmp_path / "exported"))
    assert refused.exit_code == 2
    assert "Extractive, which no other library can load" in refused.output


@pytest.mark.slow
def test_a_shared_model_comes_back_from_an_export_where_every_agent_has_a_copy(tmp_path: Path) -> None:
    run, env = tmp_path / "run", llm_dec_pomdp.make("tldr-v0")
    model = ["--model", "builtin:tiny", "--sharing", "shared"]
    assert call("train", "tldr-v0", *SMALL, *model, "--out", str(run)).exit_code == 0
    assert call("export", str(run), str(tmp_path / "exported")).exit_code == 0
    teams = [
        llm_dec_pomdp.load_team(env, "builtin:tiny", sharing="shared", device="cpu", weights=place)
        for place in (run, tmp_path / "exported")
    ]
    assert same(weights(teams[0]), weights(teams[1]))
    with pytest.raises(CheckpointError, match="has weights of"):
        llm_dec_pomdp.load_team(env, "builtin:tiny", device="cpu", weights=run)  # two models


def test_what_is_no_saved_team_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FileExistsError, match="not a saved team"):
        llm_dec_pomdp.save_team(trained(), tmp_path)
    with pytest.raises(ValueError, match="no trainable weights to save"):
        llm_dec_pomdp.save_team(llm_dec_pomdp.load_team(tiger(), "script:optimal"), tmp_path / "new")
    saved = tmp_path / "saved"
    llm_dec_pomdp.save_team(trained(), saved)
    llm_dec_pomdp.save_team(trained(), saved)
    ran = call("eval", "dectiger-v0", "--team", str(saved))
    assert ran.exit_code == 2
    assert "load_team(env, model, weights=...)" in ran.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks for it
def test_peft_loads_a_saved_adapter_with_its_base(tmp_path: Path) -> None:
    from peft import AutoPeftModelForCausalLM

    base = save_model(tmp_path / "base")
    env = llm_dec_pomdp.make("tldr-v0")
    team = llm_dec_pomdp.load_team(env, base, sharing="lora", device="cpu")
    policy: Any = team.members["agent_1"]
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1)
    llm_dec_pomdp.save_team(team, tmp_path / "saved")
    loaded = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "saved" / "agent_1")
    ids = torch.tensor([[5, 6, 7, 8]])
    plain = language_model().model(ids).logits
    adapted = loaded(ids).logits
    assert not torch.allclose(plain, adapted)
    policy.model.set_adapter("agent_1")
    policy.model.mixed_rows.choose(["agent_1"], ids.device)
    torch.testing.assert_close(policy.model(ids).logits, adapted)


# --- trackers, progress, files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["train", "tldr-v0"], ["bench", "quick"]])
def test_a_tracker_that_is_not_installed_is_noticed_before_anything_runs(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    ran = call(*command, "--track", "wandb")
    assert ran.exit_code == 2
    assert "pip install wandb," in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_training_in_python_is_tracked(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    trained(checkpoints=tmp_path, track="tensorboard")
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1


def test_a_training_in_python_shows_how_far_it_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trained(checkpoints=tmp_path, progress=True)
    out, err = capfd.readouterr()
    assert "train magrpo on dectiger-v0 (learning rate 0.1): 2 of 2" in err
    assert out == ""


@pytest.mark.slow
def test_own_rows_without_a_split_are_trained_on_and_measured(tmp_path: Path) -> None:
    rows = tmp_path / "posts.jsonl"
    rows.write_text("".join(json.dumps({"post": f"I lost my key number {k}."}) + "\n" for k in range(4)))
    command = ["train", "tldr-v0", *SMALL, "--tasks", str(rows), "--field", "prompt=post", "--out"]
    for name, options, counts in (
        ("divided", [], [3, 1]),
        ("all", ["--split", "all", "--eval-split", "all"], [4, 4, 4]),
        ("known", ["--eval-split", "train"], [3, 3, 3]),
    ):
        ran = call(*command, str(tmp_path / name), *options)
        assert ran.exit_code == 0, ran.output
        [about] = [line for line in ran.stderr.splitlines() if "rows to train on" in line]
        assert [int(count) for count in re.findall(r"(\d+) (?:rows?|of them)", about)] == counts
    rows.write_text("".join(json.dumps({"post": f"Key {k}.", "split": "train"}) + "\n" for k in range(4)))
    refused = call(*command, str(tmp_path / "none"))
    assert refused.exit_code == 2
    assert "--eval-split all" in refused.stderr
    assert call(*command, str(tmp_path / "none"), "--eval-split", "all").exit_code == 0
    refused = call(*command, str(tmp_path / "both"), "--eval-tasks", str(rows), "--eval-split", "all")
    assert "--eval-split would have no effect" in refused.stderr


HEART = """
from llm_dec_pomdp.envs import Facts, TaskSource, TextTask
from llm_dec_pomdp.types import Score, TaskItem


class Heart(TextTask):
    declared = Facts(name="heart-v0", roles=("a", "b"), components=("hit",), score_range=(0.0, 1.0))
    source = TaskSource("heart", sample=lambda: [TaskItem(s, f"Who is in {s}?", split=s) for s in ("train", "test")])

    def observe(self, item, agent):
        return item.prompt

    def score(self, item, actions):
        hit = float(actions["agent_0"] == "yes")
        return Score(hit, {"hit": hit})

    def choices(self, agent, history=()):
        return ["yes", "no"]
"""


@pytest.mark.slow
def test_a_table_that_is_measured_on_other_tasks_than_it_learns_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "heart_of.py").write_text(HEART, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    size = ["--steps", "1", "--prompts", "1", "--group-size", "2", "--model", "builtin:table", "--max-new-tokens", "1"]
    for options, named in (([], True), (["--eval-split", "train"], False), (["--split", "all"], False)):
        ran = call("train", "heart_of:Heart", *size, *options, "--out", str(tmp_path / "".join(options or ["default"])))
        assert ran.exit_code == 0, ran.output
        assert ("memorises" in ran.stderr) == named
        assert ("--eval-split train" in ran.stderr) == named


def test_the_report_shows_what_everybody_wrote_in_turn(tmp_path: Path) -> None:
    options = ["--algorithm", "sequential", "--items", "1", "--max-new-tokens", "8", "--out", str(tmp_path / "run")]
    assert call("eval", "tldr-v0", *options).exit_code == 0
    episode = (tmp_path / "run" / "report.md").read_text().split("## One episode per method")[1]
    assert "**summary**, turn 1:" in episode
    assert "**elaboration**, turn 2:" in episode


# --- a server that is down --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("command", [["eval", "tldr-v0", "--items", "1"], ["play", "tldr-v0"]])
def test_a_server_that_is_down_is_a_sentence(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = call(*command, "--model", NOBODY, text="Mine.\n\n")
    assert ran.exit_code == 1
    assert "127.0.0.1:9" in ran.stderr
    assert isinstance(ran.exception, SystemExit)
