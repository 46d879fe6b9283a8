"""Texts of a prompt in one row: what is computed is what is computed in rows of their own."""

from __future__ import annotations

import pytest
import torch
from models import network, tokenizer

from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.options import ModelOptions
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.types import Completion

AGENTS = ("agent_0", "agent_1")


def texts() -> list[tuple[str, Completion]]:
    """Of three prompts and two agents, 1 to 23 tokens, not in the order of their prompts."""
    draws = torch.Generator().manual_seed(0)
    prompts = [tuple(torch.randint(5, 60, (n,), generator=draws).tolist()) for n in (3, 17, 9)]
    lengths = [23, 1, 2, 11, 1, 7, 19, 5]
    return [
        (AGENTS[i % 2], Completion("", prompts[i % 3], tuple(torch.randint(5, 60, (n,), generator=draws).tolist())))
        for i, n in enumerate(lengths)
    ]


@pytest.mark.parametrize("sharing", ["shared", "lora"])
@pytest.mark.parametrize("entropy", [False, True])
def test_packed_texts_have_the_same_likelihood_and_gradient(sharing: str, entropy: bool) -> None:
    found = []
    for packed in (False, True):
        [policy] = load_team(AGENTS, sharing=sharing, packed=packed).policies
        torch.manual_seed(1)
        for parameter in policy.parameters():  # adapters begin at 0, where all are alike
            parameter.data += 0.02 * torch.randn_like(parameter)
        read = policy.token_logprobs_and_entropies if entropy else policy.token_logprobs
        logprobs, *_, mask = read(texts(), 0.7)
        (logprobs * mask).sum().backward()
        found.append((logprobs * mask, [p.grad for p in policy.parameters()]))
    torch.testing.assert_close(found[0][0], found[1][0], atol=1e-5, rtol=1e-5)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_texts_of_one_token_are_packed_too() -> None:
    one = [(AGENTS[0], Completion("", (5, 6), (7,))), (AGENTS[0], Completion("", (5,), (8,)))]
    [plain], [packed] = (load_team(AGENTS, sharing="shared", packed=value).policies for value in (False, True))
    assert torch.equal(plain.token_logprobs(one, 1.0)[0], packed.token_logprobs(one, 1.0)[0])


def test_what_cannot_be_packed_is_refused() -> None:
    eager = network()
    eager.config._attn_implementation = "eager"
    with pytest.raises(ValueError, match=r"packed is true.*'eager'"):
        LanguageModel(eager, tokenizer(), packed=True)
    windows = network()
    windows.config.layer_types = ["full_attention", "sliding_attention"]
    with pytest.raises(ValueError, match="sliding_attention"):
        LanguageModel(windows, tokenizer(), packed=True)
    with pytest.raises(ConfigError, match=r"packed.*gradient_checkpointing"):
        ModelOptions(packed=True, gradient_checkpointing=True).check_conflicts(trained=True)
