"""Adapters mixed in one pass give what peft gives, in value and in gradient, and stay peft's own modules."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, network
from peft import LoraConfig, PeftModel, get_peft_model

from llm_dec_pomdp.agents.language_model.adapters import MixedLinear, mix_adapters

# peft asks transformers for an attribute under its old name.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

IDS = torch.tensor([[3, 4, 5], [6, 7, 8], [9, 3, 4], [5, 6, 7]])


def adapted(rank: int = 4, targets: Any = "all-linear") -> Any:
    """A peft model with two different adapters."""
    torch.manual_seed(0)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets)
    model = get_peft_model(network(double=True), config, adapter_name=AGENTS[0])
    model.add_adapter(AGENTS[1], config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
        parameter.requires_grad_("lora_" in name)
    return model.double().eval()


def mixed(model: Any, names: list[str | None]) -> torch.Tensor:
    mix_adapters(model).choose(names, IDS.device)
    return model.get_base_model()(input_ids=IDS).logits


@pytest.mark.parametrize(
    "names",
    [
        ["agent_0", "agent_1", "agent_0", "agent_1"],
        ["agent_1"] * 4,
        ["__base__", "agent_1", "agent_0", "__base__"],
        ["__base__"] * 4,
    ],
)
def test_each_row_goes_through_its_own_adapter(names: list[str | None]) -> None:
    theirs = adapted()
    ours = copy.deepcopy(theirs)
    expected = theirs(input_ids=IDS, adapter_names=names).logits
    actual = mixed(ours, names)
    torch.testing.assert_close(actual, expected)
    if any(name != "__base__" for name in names):
        for logits in (expected, actual):
            logits.pow(2).sum().backward()
        for (name, a), (_, b) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
            if a.grad is None or b.grad is None:  # an adapter that no row used
                assert all(g is None or not g.any() for g in (a.grad, b.grad)), name
            else:
                torch.testing.assert_close(b.grad, a.grad, rtol=1e-9, atol=1e-9, msg=name)


def test_a_batch_that_was_sampled_can_be_trained_on() -> None:
    model, names = adapted(), ["agent_0", "agent_1", "agent_0", "agent_1"]
    with torch.inference_mode():
        sampled = mixed(model, names)
    trained = mixed(model, names)
    trained.pow(2).sum().backward()
    assert torch.equal(trained, sampled)
    assert all(p.grad is not None and p.grad.any() for n, p in model.named_parameters() if "lora_" in n)


def test_what_is_saved_is_loaded_by_peft(tmp_path: Path) -> None:
    model = adapted()
    mix_adapters(model)
    expected = mixed(model, ["agent_1"] * 4)
    model.save_pretrained(str(tmp_path))
    torch.manual_seed(0)
    loaded = PeftModel.from_pretrained(network(double=True), str(tmp_path / "agent_1"), adapter_name="agent_1")
    loaded = loaded.double().eval()
    torch.testing.assert_close(loaded(input_ids=IDS).logits, expected)


def test_a_copy_chooses_for_itself() -> None:
    model = adapted()
    mix_adapters(model).choose(["agent_0"] * 4, IDS.device)
    twin = copy.deepcopy(model)
    mix_adapters(twin).choose(["agent_1"] * 4, IDS.device)
    torch.testing.assert_close(model.get_base_model()(input_ids=IDS).logits, mixed(model, ["agent_0"] * 4))


def test_different_ranks_are_refused() -> None:
    model = adapted()
    model.add_adapter("third", LoraConfig(r=2, target_modules="all-linear"))
    with pytest.raises(ValueError, match=r"\[2, 4\]"):
        mix_adapters(model)


def test_adapters_of_another_kind_are_refused() -> None:
    model = adapted(targets=["embed_tokens", "q_proj"])
    with pytest.raises(ValueError, match="Embedding"):
        mix_adapters(model)


@pytest.mark.filterwarnings("ignore:.*merging LoRA weights")
@pytest.mark.parametrize(
    ("option", "named"),
    [
        ({"use_dora": True}, "'second' has use_dora=True"),
        ({"lora_bias": True}, "'second' has lora_bias=True"),
        ({"modules_to_save": ["lm_head"]}, r"'second' has modules_to_save=\['lm_head'\]"),
        ({"alora_invocation_tokens": [3]}, "'second' has ALoraLinearVariant"),
    ],
)
def test_more_than_lora_is_refused(option: dict[str, Any], named: str) -> None:
    model = get_peft_model(network(), LoraConfig(r=4, target_modules=["q_proj"]), adapter_name="first")
    task = "CAUSAL_LM" if "alora_invocation_tokens" in option else None
    model.add_adapter("second", LoraConfig(r=4, target_modules=["q_proj"], task_type=task, **option))
    with pytest.raises(ValueError, match=named):
        mix_adapters(model)


def test_all_linear_layers_are_mixed_and_once() -> None:
    model = adapted()
    rows = mix_adapters(model)
    assert mix_adapters(model) is rows
    layers = [m for m in model.modules() if hasattr(m, "lora_A")]
    assert layers
    assert all(type(layer) is MixedLinear for layer in layers)
