"""Checkpoints of a run: whole or not there, verified before they are used, readable by other libraries."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, language_model, same, save_model, separate_team, softmax_team, weights
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.stepping import forward
from llm_dec_pomdp.storage.files import MANIFEST, DamagedError
from llm_dec_pomdp.training import checkpoint as module
from llm_dec_pomdp.training.checkpoint import Checkpoint, CheckpointError, Checkpoints, read_checkpoint

CONFIG: dict[str, Any] = {"method": {"name": "magrpo", "options": {"rate": 0.5}}, "seed": 1}
STATE: dict[str, Any] = {
    "optimizers": [{"state": {0: {"step": torch.tensor(3.0)}}, "betas": (0.9, 0.99)}],
    "updates": 3,
}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def saved(folder: Path, *steps: int, **options: Any) -> Checkpoints:
    """Checkpoints of softmax teams whose logits are the step."""
    places = Checkpoints(folder, CONFIG, **options)
    for step in steps:
        places.save(step, softmax_team(logits=[float(step)] * 4), STATE, {"step": step})
    return places


def restore_into(places: Checkpoints, team: Team) -> tuple[Checkpoint, Any]:
    """The newest checkpoint, and the learner's state in it."""
    found = places.newest()
    assert found is not None
    return found, places.restore(found, team)


def restored(places: Checkpoints) -> float:
    """The logit of the team in the newest checkpoint."""
    team = softmax_team()
    restore_into(places, team)
    return float(weights(team)[1]["logits"][0])


# --- round trips ------------------------------------------------------------------------------------------------------


def test_weights_and_state_come_back_bit_for_bit_and_the_team_is_not_touched(tmp_path: Path) -> None:
    places, saved_team, team = Checkpoints(tmp_path, CONFIG), separate_team(seed=1), separate_team(seed=7)
    places.save(120, saved_team, STATE, {"step": 120, "bad": 2})
    found, state = restore_into(places, team)
    assert same(weights(team), weights(separate_team(seed=1)))
    assert same(weights(saved_team), weights(separate_team(seed=1)))
    assert (found.step, found.counters) == (120, {"step": 120, "bad": 2})
    assert state == STATE
    assert isinstance(state["optimizers"][0]["betas"], tuple)
    assert list(state["optimizers"][0]["state"]) == [0]


def test_a_checkpoint_has_the_documented_files_and_nothing_is_pickled(tmp_path: Path) -> None:
    place = Checkpoints(tmp_path, CONFIG).save(120, separate_team(), STATE, {})
    assert place.name == "step-000120"
    assert names(place) == sorted([*AGENTS, "checkpoint.json", MANIFEST, "state.json", "state.safetensors"])
    assert names(place / "agent_1") == ["config.json", "generation_config.json", "model.safetensors"]
    for path in place.rglob("*.json"):
        json.loads(path.read_text(), parse_constant=pytest.fail)


def test_names_of_agents_cannot_leave_the_folder(tmp_path: Path) -> None:
    places, odd = Checkpoints(tmp_path, CONFIG), "../a b/é"
    place = places.save(1, Team({odd: language_model(seed=1)}), {}, {})
    team = Team({odd: language_model(seed=2)})
    restore_into(places, team)
    assert same(weights(team), weights(Team({odd: language_model(seed=1)})))
    assert names(tmp_path) == [place.name]


# --- other libraries --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def shifted(model: str) -> Team:
    """A LoRA team whose adapters are not those of the start."""
    team = load_team(AGENTS, model, sharing="lora", device="cpu", seed=1)
    with torch.no_grad():
        for i, parameter in enumerate(team.trainable[0].parameters()):
            parameter.add_(0.02 * (i % 5 + 1))
    return team


IDS = torch.tensor([[6, 7, 8, 9]])


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")  # peft asks under an old name
def test_adapters_alone_are_saved_and_load_into_peft_without_this_library(
    tmp_path: Path, model: str, shifted: Team
) -> None:
    places = Checkpoints(tmp_path, CONFIG)
    place = places.save(1, shifted, {}, {})
    logits: list[torch.Tensor] = []
    for agent in AGENTS:
        assert names(place / agent) == ["adapter_config.json", "adapter_model.safetensors"]
        loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), place / agent).eval()
        ours = shifted.trainable[0].model  # type: ignore[attr-defined]
        with torch.no_grad():
            logits.append(loaded(IDS).logits)
            torch.testing.assert_close(logits[-1], forward(ours, [agent], input_ids=IDS).logits)
    assert not torch.equal(*logits)
    again = load_team(AGENTS, model, sharing="lora", device="cpu", seed=2)
    restore_into(places, again)
    assert same(weights(again), weights(shifted))
    numbers = sum(p.numel() for p in shifted.trainable[0].parameters())
    assert sum(path.stat().st_size for path in place.glob("*/*.safetensors")) < 4 * numbers + 30_000


def test_adapters_of_agents_whose_names_begin_alike_are_kept_apart(tmp_path: Path, model: str) -> None:
    agents = ["agent_1", "agent_10"]
    team = load_team(agents, model, sharing="lora", device="cpu")
    place = Checkpoints(tmp_path, CONFIG).save(1, team, {}, {})
    first, ten = (load_file(place / agent / "adapter_model.safetensors").keys() for agent in agents)
    assert first == ten
    assert not any("agent" in name for name in first)


def test_all_weights_load_into_transformers(tmp_path: Path) -> None:
    team = separate_team(seed=1, tie_word_embeddings=True)
    place = Checkpoints(tmp_path, CONFIG).save(1, team, {}, {})
    loaded = AutoModelForCausalLM.from_pretrained(place / "agent_1").eval()
    with torch.no_grad():
        assert torch.equal(loaded(IDS).logits, team.trainable[1].model(IDS).logits)  # type: ignore[attr-defined]


# --- pruning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [2, 3])
def test_the_newest_stay_and_what_a_killed_save_left_goes(tmp_path: Path, keep: int) -> None:
    (tmp_path / ".step-000002-77").mkdir()
    saved(tmp_path, 2, 4, 10, 100, keep=keep)
    assert names(tmp_path) == ["step-000004", "step-000010", "step-000100"][-keep:]
    with pytest.raises(ValueError, match="keep is 1"):
        saved(tmp_path, keep=1)


def test_a_damaged_newer_one_does_not_push_out_a_whole_one(tmp_path: Path) -> None:
    places = saved(tmp_path, 1, 2, 3)
    (tmp_path / "step-000003" / MANIFEST).unlink()
    assert restored(places) == 2
    saved(tmp_path, 4)
    assert names(tmp_path) == ["step-000003", "step-000004"]  # the damaged one is old now
    (tmp_path / "step-000004" / MANIFEST).unlink()
    saved(tmp_path / "other", 1, 2, 9)
    (tmp_path / "other" / "step-000009" / MANIFEST).unlink()
    saved(tmp_path / "other", 3)
    assert names(tmp_path / "other") == ["step-000002", "step-000003"]


def test_a_damaged_checkpoint_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    places = saved(tmp_path, 1, 2)
    (tmp_path / "step-000002" / "state.json").write_text("")
    saved(tmp_path, 2)
    assert restored(places) == 2
    assert names(tmp_path) == ["step-000001", "step-000002"]


# --- damage -----------------------------------------------------------------------------------------------------------


def flip(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 1
    path.write_bytes(bytes(content))


FILES = ("agent_0/weights.safetensors", "state.safetensors", "state.json", "checkpoint.json", MANIFEST)
HARMS: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a byte flipped": lambda path: flip(path, 0.6),
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_newest_is_skipped_and_named(
    file: str, harm: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    places = saved(tmp_path, 1, 2)
    HARMS[harm](tmp_path / "step-000002" / file)
    with caplog.at_level(logging.WARNING):
        assert restored(places) == 1
    (record,) = caplog.records
    assert "step-000002" in record.getMessage()
    with pytest.raises(DamagedError, match=file):
        read_checkpoint(tmp_path / "step-000002")


@pytest.mark.slow
def test_every_flipped_byte_of_the_manifest_is_noticed(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    path = tmp_path / "step-000001" / MANIFEST
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(DamagedError):
            read_checkpoint(tmp_path / "step-000001")


def test_all_damaged_is_an_error_and_no_fresh_start(tmp_path: Path) -> None:
    places = saved(tmp_path, 1, 2)
    (tmp_path / "step-000001" / "state.json").unlink()
    (tmp_path / "step-000002" / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match=r"step-000002: manifest.*step-000001: state"):
        places.newest()
    assert Checkpoints(tmp_path / "nowhere", CONFIG).newest() is None


# --- other runs -------------------------------------------------------------------------------------------------------


def test_another_configuration_is_named_value_by_value(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    other = {"method": {"name": "magrpo", "options": {"rate": 0.25, "clip": 1}}}
    with pytest.raises(CheckpointError) as caught:
        restored(Checkpoints(tmp_path, other))
    assert "method.options.rate: 0.5 -> 0.25; method.options.clip: absent -> 1; seed: 1 -> absent" in str(caught.value)


def test_other_versions_are_named_and_can_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, 1)
    here = module.versions()
    monkeypatch.setattr(module, "versions", lambda: {**here, "torch": "9.9"})
    with pytest.raises(CheckpointError, match=rf"torch: '{re.escape(here['torch'])}' -> '9\.9'"):
        restored(Checkpoints(tmp_path, CONFIG))
    assert restored(Checkpoints(tmp_path, CONFIG, other_versions=True)) == 1


def test_another_format_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FORMAT", 7)
    places = saved(tmp_path, 1)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="format 7"):
        places.newest()


def test_another_team_is_named(tmp_path: Path) -> None:
    places = saved(tmp_path, 1)
    with pytest.raises(CheckpointError, match="team"):
        restore_into(places, separate_team())
    with pytest.raises(CheckpointError, match="logits"):
        restore_into(places, softmax_team(words=["a"]))


# --- accidents in a save ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_kill_at_any_system_call_of_a_save_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """The child saves step 2 over steps 0 and 1, and dies at its first, second, third ... system call."""
    script = Path(__file__).with_name("crash_save.py")
    with_ours = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=True, env=with_ours)
    count = int(done.stdout)
    found: list[int] = []
    for number in range(count):
        places, team = Checkpoints(tmp_path / f"run-{number}", {"seed": 0}), softmax_team()
        newest, state = restore_into(places, team)
        assert [float(w["logits"][0]) for w in weights(team)] == [newest.step] * 2
        assert float(state["optimizers"][0]["state"][0]["exp_avg"][0]) == 2 * newest.step
        found.append(newest.step)
        places.save(3, team, {}, {})
        assert not [name for name in names(places.folder) if not name.startswith("step-")]
    assert count > 30
    assert found == sorted(found)  # before the rename the old one is the newest, after it the new one
    assert set(found) == {1, 2}


def test_every_file_is_durable_before_the_rename_and_the_rename_before_the_old_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill cannot show this, only a loss of power could: so the order of the calls is looked at."""
    saved(tmp_path, 1, 2)
    calls: list[tuple[str, Path]] = []
    fsync, rename, rmtree = os.fsync, Path.rename, shutil.rmtree

    def note_fsync(handle: int) -> None:
        calls.append(("fsync", Path(f"/proc/self/fd/{handle}").resolve()))
        fsync(handle)

    def note_rename(path: Path, target: Path) -> Any:
        calls.append(("rename", path))
        return rename(path, target)

    def note_rmtree(path: Path, **options: Any) -> None:
        if path.exists():
            calls.append(("remove", path))
        rmtree(path, **options)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "rename", note_rename)
    monkeypatch.setattr(shutil, "rmtree", note_rmtree)
    saved(tmp_path, 3)
    *before, parent, removal = calls
    renamed = before.pop()
    draft = renamed[1]
    assert (renamed[0], parent, removal) == ("rename", ("fsync", tmp_path), ("remove", tmp_path / "step-000001"))
    files = {draft / path.relative_to(tmp_path / "step-000003") for path in (tmp_path / "step-000003").rglob("*")}
    assert {("fsync", path) for path in (draft, *files)} == set(before)
    assert before[-2:] == [("fsync", draft / MANIFEST), ("fsync", draft)]


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    places = saved(tmp_path, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sizes = {path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    for size in sizes:  # the disk is full at another file each time, the manifest among them
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, hard))
        try:
            with pytest.raises(OSError) as caught:  # the number is what tells
                saved(tmp_path, 2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.errno == errno.EFBIG
        assert names(tmp_path) == ["step-000001"]
        assert restored(places) == 1
    saved(tmp_path, 2)
    assert restored(places) == 2
