"""Folders of models and checkpoints that bring programs along: none of them runs, and the message names the file."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from models import save_model
from safetensors.torch import load_file

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.agents.loading import ModelError, load_model
from llm_dec_pomdp.agents.saved import CheckpointError, load_weights, save_team
from llm_dec_pomdp.agents.transformers.language_model import LanguageModel
from llm_dec_pomdp.training.checkpoint import Checkpoints, read_checkpoint
from llm_dec_pomdp.types import conversation


class Program:
    """Touches a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def zipped(value: Any, path: Path) -> None:
    torch.save(value, path)


def old(value: Any, path: Path) -> None:
    torch.save(value, path, _use_new_zipfile_serialization=False)


def raw(value: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(value))


WRITERS = [zipped, old, raw]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(save_model(tmp_path / "model"))


@pytest.mark.parametrize("write", WRITERS)
def test_a_program_among_pickled_weights_does_not_run(model: Path, write: Callable[..., None], tmp_path: Path) -> None:
    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    write({**weights, "bonus": Program(tmp_path / "ran")}, model / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin' is pickled and holds more than weights"):
        load_model(str(model), device="cpu")
    assert not (tmp_path / "ran").exists()


def test_a_pickle_that_is_called_safetensors_is_none(model: Path, tmp_path: Path) -> None:
    raw(Program(tmp_path / "ran"), model / "model.safetensors")
    with pytest.raises(ModelError, match="could not be loaded on cpu"):
        load_model(str(model), device="cpu")
    assert not (tmp_path / "ran").exists()


def test_code_beside_the_weights_is_not_run(model: Path, tmp_path: Path) -> None:
    """Neither the classes that a configuration names nor those of a tokenizer."""
    (model / "evil.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\nclass Evil: pass\n")
    for name, classes in (
        ("config.json", {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}),
    ):
        values = json.loads((model / name).read_text())
        (model / name).write_text(json.dumps({**values, "auto_map": classes}))
    load_model(str(model), device="cpu")  # what it knows by itself
    values = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**values, "model_type": "evil"}))
    with pytest.raises(ModelError, match="could not be loaded on cpu"):
        load_model(str(model), device="cpu")
    assert not (tmp_path / "ran").exists()


ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.mkdir('MARK') }}",
    "{{ self.__init__.__globals__.__builtins__.__import__('os').mkdir('MARK') }}",
    "{{ lipsum.__globals__['os'].mkdir('MARK') }}",
    "{{ (messages|attr('__class__')).mro() }}",
    "{% for i in range(10000000000) %}x{% endfor %}",
]


@pytest.mark.parametrize("template", ESCAPES)
def test_a_chat_template_does_not_leave_its_sandbox(model: Path, template: str, tmp_path: Path) -> None:
    (model / "chat_template.jinja").write_text(template.replace("MARK", str(tmp_path / "ran")))
    network, tokenizer = load_model(str(model), device="cpu")
    with pytest.raises(ValueError, match=r"the chat template of '.*model' failed"):
        LanguageModel(network, tokenizer).encode(conversation("say red"))
    assert not (tmp_path / "ran").exists()


# --- our own files ----------------------------------------------------------------------------------------------------


@pytest.fixture
def team(model: Path) -> Team:
    return Team({"agent_0": LanguageModel(*load_model(str(model), device="cpu", trained=True))})


def test_a_pickle_in_a_saved_team_is_refused(team: Team, tmp_path: Path) -> None:
    save_team(tmp_path / "team", team, {})
    raw(Program(tmp_path / "ran"), tmp_path / "team" / "agent_0" / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors' is no safetensors file"):
        load_weights(tmp_path / "team", team)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["agent_0/model.safetensors", "state.safetensors"])
def test_a_pickle_in_a_checkpoint_is_refused_though_its_manifest_fits(name: str, team: Team, tmp_path: Path) -> None:
    places = Checkpoints(tmp_path / "checkpoints", {})
    folder = places.save(1, team, {"optimizer": {"step": torch.ones(2)}}, {})
    content = pickle.dumps(Program(tmp_path / "ran"))
    (folder / name).write_bytes(content)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    files[name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    listed = json.dumps(files, sort_keys=True)
    whole = {"files": json.loads(listed), "sha256": hashlib.sha256(listed.encode()).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(whole, indent=1) + "\n")
    checkpoint = read_checkpoint(folder)
    with pytest.raises(CheckpointError, match=f"{name}' is no safetensors file"):
        places.restore(checkpoint, team)
    assert not (tmp_path / "ran").exists()


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["half \ud800 of a character", "\udfff", "\x00\x1b[31m\u202e", "a whole \ud83d\ude00 one"]
)
def test_any_text_can_be_a_prompt(text: str) -> None:
    policy = LanguageModel(*load_model("builtin:tiny", device="cpu"))
    shown = policy.tokenizer.decode(policy.encode(conversation(text)))
    assert text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") in shown
