"""Folders of models and checkpoints that bring programs along: none of them runs, and the message names the file."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.agents.io.models import ModelError, load_model
from llm_dec_pomdp.agents.io.save import CheckpointError, load_weights, save_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.cli import app
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
def model(folder: str, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(folder, tmp_path / "model"))


@pytest.mark.parametrize("write", WRITERS)
def test_a_program_among_pickled_weights_does_not_run(model: Path, write: Callable[..., None], tmp_path: Path) -> None:
    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    write({**weights, "bonus": Program(tmp_path / "ran")}, model / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin'"):
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
    "{{ raise_exception('no') }}",
    "{{ 1 / 0 }}",
    "{{ messages + 1 }}",
    "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
]


@pytest.mark.parametrize("template", ESCAPES)
def test_a_chat_template_does_not_leave_its_sandbox(model: Path, template: str, tmp_path: Path) -> None:
    (model / "chat_template.jinja").write_text(template.replace("MARK", str(tmp_path / "ran")))
    network, tokenizer = load_model(str(model), device="cpu")
    with pytest.raises(ValueError, match=r"chat template of '.*model'"):
        LanguageModel(network, tokenizer).encode(conversation("say red"))
    assert not (tmp_path / "ran").exists()


# --- models that are no good ------------------------------------------------------------------------------------------


def text(name: str, content: str | bytes) -> Callable[[Path], object]:
    return lambda model: (model / name).write_bytes(content.encode() if isinstance(content, str) else content)


def values(name: str, **changes: Any) -> Callable[[Path], object]:
    return lambda model: text(name, json.dumps({**json.loads((model / name).read_text()), **changes}))(model)


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def write(model: Path) -> None:
        tensors = load_file(model / "model.safetensors")
        change(tensors)
        save_file(tensors, model / "model.safetensors", {"format": "pt"})

    return write


def cut(model: Path) -> None:
    os.truncate(model / "model.safetensors", 3000)


def pipe(model: Path) -> None:
    (model / "model.safetensors").unlink()
    os.mkfifo(model / "model.safetensors")


def one_not_a_number(tensors: dict[str, torch.Tensor]) -> None:
    next(iter(tensors.values())).view(-1)[0] = torch.nan


BAD: dict[str, Callable[[Path], object]] = {
    "config that is a list": text("config.json", "[]"),
    "deep config": text("config.json", "[" * 100_000),
    "config of bytes": text("config.json", bytes(range(256))),
    "wrong type in the config": values("config.json", hidden_size="x"),
    "unknown function": values("config.json", hidden_act="nope"),
    "unknown kind of number": values("config.json", dtype="float99"),
    "no heads": values("config.json", num_attention_heads=0),
    "another architecture": values("config.json", model_type="gpt2"),
    "no text model": values("config.json", model_type="t5"),
    "more layers than weights": values("config.json", num_hidden_layers=7),
    "larger vocabulary": values("config.json", vocab_size=99_999),
    "weights cut short": cut,
    "empty weights": text("model.safetensors", b""),
    "a weight missing": weights(dict.popitem),
    "a weight that is not finite": weights(one_not_a_number),
    "pipe": pipe,
    "tokenizer that is a list": text("tokenizer.json", "[]"),
    "empty tokenizer": text("tokenizer.json", "{}"),
}


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD)
def test_a_bad_model_is_a_named_error(model: Path, spoil: Callable[[Path], object]) -> None:
    spoil(model)
    with pytest.raises(ModelError, match=str(model)):
        load_model(str(model), device="cpu")


GGUF = {"text": b"hello", "empty": b"", "cut short": b"GGUF\x03\0\0\0" + b"\x07" * 100}


@pytest.mark.parametrize("content", GGUF.values(), ids=GGUF)
def test_a_bad_gguf_file_is_a_named_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(ModelError, match=r"m\.gguf"):
        load_model(str(tmp_path / "m.gguf"), device="cpu")


def test_a_bad_model_ends_a_command_with_a_sentence(model: Path, tmp_path: Path) -> None:
    text("config.json", "[]")(model)
    options = ["--model", str(model), "--out", str(tmp_path / "run"), "--device", "cpu"]
    result = CliRunner().invoke(app, ["eval", "tldr-v0", *options])
    assert (result.exit_code, str(model) in "".join(result.output.split())) == (2, True)


# --- our own files ----------------------------------------------------------------------------------------------------


@pytest.fixture
def team(model: Path) -> Team:
    return Team({"agent_0": LanguageModel(*load_model(str(model), device="cpu", trained=True))})


def test_a_pickle_in_a_saved_team_is_refused(team: Team, tmp_path: Path) -> None:
    save_team(team, tmp_path / "team", {})
    raw(Program(tmp_path / "ran"), tmp_path / "team" / "agent_0" / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors'"):
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
    with pytest.raises(CheckpointError, match=f"{name}'"):
        places.restore(checkpoint, team)
    assert not (tmp_path / "ran").exists()


# --- texts ------------------------------------------------------------------------------------------------------------


def test_any_text_can_be_a_prompt() -> None:
    policy = LanguageModel(*load_model("builtin:tiny", device="cpu"))
    for text in ("half \ud800 of a character", "\udfff", "\x00\x1b[31m\u202e", "a whole \ud83d\ude00 one"):
        shown = policy.tokenizer.decode(policy.encode(conversation(text)))
        assert text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") in shown
