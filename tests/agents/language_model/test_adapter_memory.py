"""What an update of adapters keeps for the way back, and that its gradients are those of plain autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models import AGENTS, network, tokenizer
from requests_of_agents import kept_bytes

from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.adapters import MixedLinear
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.types import Completion

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

SIZES = {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 4, "num_attention_heads": 4}
SIZES |= {"num_key_value_heads": 2, "spread": 0.02}
SAMPLES = [  # four texts of each agent after a prompt of its own
    (agent, Completion("x", tuple(range(5, 21)) * 4 + (place,), tuple(5 + (i * 7 + k) % 16 for i in range(48))))
    for k in range(4)
    for place, agent in enumerate(AGENTS, 5)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model")
    network(**SIZES).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return str(path)


def policy(folder: str, sharing: Any, dtype: str) -> LanguageModel:
    [loaded] = load_team(AGENTS, folder, sharing=sharing, device="cpu", dtype=dtype).policies
    assert isinstance(loaded, LanguageModel)
    drawn = torch.Generator().manual_seed(0)
    for name, parameter in loaded.model.named_parameters():
        if "lora_B" in name:  # which begins with zeros
            with torch.no_grad():
                parameter.copy_(0.02 * torch.randn(parameter.shape, generator=drawn))
    return loaded


def test_adapters_on_a_base_in_half_precision_keep_no_more_than_all_weights_do(folder: str) -> None:
    adapters, whole = (kept_bytes(policy(folder, sharing, "bfloat16"), SAMPLES) for sharing in ("lora", "shared"))
    assert adapters <= whole


def plain(self: Any, x: torch.Tensor) -> torch.Tensor:
    """The layer's equation, with autograd as it is."""
    result = self.base_layer(x)
    down = torch.cat([self.lora_A[name].weight for name in self.rows.names]).to(x.dtype)
    up = torch.cat([self.lora_B[name].weight * self.scaling[name] for name in self.rows.names], dim=1).to(x.dtype)
    low = torch.nn.functional.linear(x, down) * self.rows.mask.to(x.dtype)
    return result + torch.nn.functional.linear(low, up)


def gradients(language_model: LanguageModel) -> list[torch.Tensor]:
    language_model.model.zero_grad()
    logprobs, mask = language_model.token_logprobs(SAMPLES, 1.0)
    (logprobs * mask).sum().backward()
    return [logprobs.detach(), *(p.grad.clone() for p in language_model.parameters() if p.grad is not None)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_gradients_are_bit_for_bit_those_of_plain_autograd(
    folder: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    language_model = policy(folder, "lora", dtype)
    ours = gradients(language_model)
    monkeypatch.setattr(MixedLinear, "forward", plain)
    wanted = gradients(language_model)
    assert len(ours) == len(wanted) == 1 + len(list(language_model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(ours, wanted, strict=True))
    assert all(part.abs().sum() > 0 for part in ours)
