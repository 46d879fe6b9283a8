"""Folders of adapters that peft has saved: what is loaded is the base with the adapter, or a sentence says why not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, network, save_model, tokenizer
from peft import LoraConfig, PeftModel, PromptTuningConfig, get_peft_model
from requests_of_agents import pairs
from safetensors.torch import load_file, save_file

from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.io.models import ModelError, load_model, load_policy
from llm_dec_pomdp.agents.language_model.policy import LanguageModel

# peft asks transformers for an attribute under its old name.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Could not find a config file"),
]

KINDS: dict[str, dict[str, Any]] = {
    "LoRA": {},
    "DoRA": {"use_dora": True},
    "layers": {"modules_to_save": ["lm_head"]},
    "tokens": {"trainable_token_indices": [3, 4]},
}


def save_adapter(folder: Path, base: str, **options: Any) -> str:
    """Save an adapter with an effect on a base, as peft does."""
    model, _ = load_model(base, device="cpu")
    torch.manual_seed(0)
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", **options))
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data += 0.1 * torch.randn(parameter.shape)
    adapted.save_pretrained(str(folder))
    return str(folder)


@pytest.fixture
def base(tmp_path: Path) -> str:
    return save_model(tmp_path / "base", 3)


@pytest.fixture
def adapter(tmp_path: Path, base: str) -> Path:
    return Path(save_adapter(tmp_path / "adapter", base))


@pytest.mark.slow
@pytest.mark.every(4)
@pytest.mark.parametrize("sharing", ["separate", "shared", "lora"])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_is_the_merged_model(tmp_path: Path, base: str, kind: str, sharing: str, train: bool) -> None:
    folder = save_adapter(tmp_path / "adapter", base, **KINDS[kind])
    plain: Any = PeftModel.from_pretrained(load_model(base, device="cpu")[0], folder)
    wanted = LanguageModel(plain.merge_and_unload(), tokenizer())
    team = load_team(AGENTS, folder, sharing=sharing, train=train, device="cpu")
    texts = pairs(LanguageModel(load_model(base, device="cpu")[0], tokenizer()))
    expected, mask = wanted.token_logprobs(texts, 1.0)
    raw, _ = LanguageModel(load_model(base, device="cpu")[0], tokenizer()).token_logprobs(texts, 1.0)
    assert ((expected - raw) * mask).abs().max() > 0.01
    for policy in team.policies:
        torch.testing.assert_close(policy.token_logprobs(texts, 1.0)[0] * mask, expected * mask, atol=1e-5, rtol=0)
        names = list(policy.state_dict())
        assert bool(names) == train
        assert all(("lora_" in name) == (sharing == "lora") for name in names)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of peft, about these layers
@pytest.mark.parametrize("layer", ["embed_tokens", "lm_head"])
def test_an_adapter_on_one_of_two_layers_with_the_same_weights_is_refused(tmp_path: Path, layer: str) -> None:
    model, _ = load_model("builtin:tiny", device="cpu")
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules=[layer, "q_proj"]))
    adapted.peft_config["default"].base_model_name_or_path = "builtin:tiny"
    adapted.save_pretrained(str(tmp_path / "adapter"))
    with pytest.raises(ModelError, match="tie_word_embeddings"):
        load_model(str(tmp_path / "adapter"), device="cpu")


def test_an_adapter_on_an_adapter_and_a_tokenizer_of_its_own(tmp_path: Path, base: str, adapter: Path) -> None:
    words = tokenizer()
    words.chat_template = "another"
    words.save_pretrained(adapter)
    second = save_adapter(tmp_path / "second", str(adapter))
    assert json.loads((Path(second) / "adapter_config.json").read_text())["base_model_name_or_path"] == str(adapter)
    model, loaded = load_model(second, device="cpu")
    first, _ = load_model(str(adapter), device="cpu")
    wanted: Any = PeftModel.from_pretrained(first, second)
    ids = torch.tensor([[3, 4, 5]])
    torch.testing.assert_close(model(input_ids=ids).logits, wanted(input_ids=ids).logits)
    assert loaded.chat_template == "another"


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path, str], None]:
    def write(adapter: Path, base: str) -> None:
        file = adapter / "adapter_model.safetensors"
        weights = load_file(file)
        change(weights)
        save_file(weights, file)

    return write


def config(**changes: Any) -> Callable[[Path, str], None]:
    def write(adapter: Path, base: str) -> None:
        file = adapter / "adapter_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    return write


def several(adapter: Path, base: str) -> None:
    shutil.copytree(adapter, adapter / "other")


def whole(adapter: Path, base: str) -> None:
    shutil.copytree(base, adapter, dirs_exist_ok=True)


def other_base(adapter: Path, base: str) -> None:
    save_model(base, hidden_size=32)


def prompts(adapter: Path, base: str) -> None:
    model = get_peft_model(network(), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3))
    shutil.rmtree(adapter)
    model.save_pretrained(str(adapter))
    config(base_model_name_or_path=base)(adapter, base)


BAD: dict[str, tuple[Callable[[Path, str], None], str]] = {
    "a weight is missing": (tensors(dict.popitem), "lacks weights"),
    "a weight too many": (tensors(lambda t: t.update({"base_model.model.model.x": torch.ones(1)})), "does not have"),
    "a weight that is not finite": (tensors(lambda t: next(iter(t.values())).fill_(torch.nan)), "adapter"),
    "layers that were not saved": (config(modules_to_save=["lm_head"]), "incompatible with its base"),
    "no base": (config(base_model_name_or_path=None), "base_model_name_or_path None"),
    "a base that is not there": (config(base_model_name_or_path="./nowhere"), "the base model of the adapter"),
    "another base": (other_base, "incompatible with its base"),
    "several adapters": (several, "several adapters"),
    "a whole model next to it": (whole, "has a whole model and an adapter"),
    "virtual tokens": (prompts, "PROMPT_TUNING"),
}


@pytest.mark.parametrize(("spoil", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_merged_whole_is_refused(
    adapter: Path, base: str, spoil: Callable[[Path, str], None], message: str
) -> None:
    spoil(adapter, base)
    with pytest.raises(ModelError, match=message) as caught:
        load_policy(str(adapter), device="cpu")
    assert str(adapter) in str(caught.value)


def test_an_adapter_is_not_merged_into_4_bits(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llm_dec_pomdp.agents.io.models._refuse_unquantizable", lambda *names: None)
    with pytest.raises(ModelError, match="quantize is '4bit'"):
        load_team(AGENTS, str(adapter), sharing="lora", quantize="4bit", device="cpu")


@pytest.mark.parametrize("changes", [{"num_hidden_layers": 1}, {"tie_word_embeddings": True, "num_key_value_heads": 1}])
def test_weights_that_the_configuration_does_not_use_are_refused(base: str, changes: dict[str, Any]) -> None:
    file = Path(base) / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    weights = load_file(Path(base) / "model.safetensors")
    save_file({**weights, "v_head.weight": torch.ones(1)}, Path(base) / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="does not use"):
        load_model(base, device="cpu")
