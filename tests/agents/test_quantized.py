"""A base of 4 bits below adapters that are trained (QLoRA)."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest
import torch
from models import ITEMS, Colourful, weights

from llm_dec_pomdp.agents.base import Sampling
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.io.models import ModelError
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.rollout import Trajectories

AGENTS = ("agent_0", "agent_1")
THERE = importlib.util.find_spec("bitsandbytes") is not None
SAMPLING = Sampling(max_new_tokens=8)


@pytest.mark.skipif(not THERE, reason="needs bitsandbytes: pip install -e '.[bitsandbytes]'")
def test_adapters_are_trained_on_a_base_of_4_bits() -> None:
    team = load_team(AGENTS, sharing="lora", quantize="4bit", device="cpu")
    [policy] = team.policies
    assert isinstance(policy, LanguageModel)
    base = {n: p.clone() for n, p in policy.model.named_parameters() if not p.requires_grad}
    rounded = [tensor for tensor in base.values() if tensor.dtype == torch.uint8]
    assert len(rounded) == 7 * policy.model.config.num_hidden_layers  # all linear layers but the output
    before = weights(team)
    groups = Trajectories().play(Colourful(ITEMS), team, ["t0"], [1], SAMPLING, 4)
    drawn = [e.turns[0].actions[AGENTS[0]] for e in groups[0].episodes]
    logprobs, mask = policy.token_logprobs([(AGENTS[0], c) for c in drawn], 1.0)
    for row, completion in zip(logprobs, drawn, strict=True):  # sampling is teacher forcing, as ever
        torch.testing.assert_close(
            row[: len(completion.logprobs)], torch.tensor(completion.logprobs), atol=1e-3, rtol=0
        )
    (logprobs * mask).sum().backward()
    assert all(p.grad is not None for p in policy.parameters_of(AGENTS[0]))
    learner = MAGRPO(team, SAMPLING, MAGRPOConfig(learning_rate=1e-2))
    learner.step([replace(s, advantage=(-1.0) ** number) for number, s in enumerate(learner.samples(groups))], groups)
    assert any(not torch.equal(a[n], b[n]) for a, b in zip(before, weights(team), strict=True) for n in a)
    assert all(torch.equal(p, base[n]) for n, p in policy.model.named_parameters() if n in base)


def test_what_cannot_be_of_4_bits_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'4bit'.*'separate'"):
        load_team(AGENTS, quantize="4bit")
    with pytest.raises(ModelError, match=r"'random:Qwen3-1\.7B'"):
        load_team(AGENTS, "random:Qwen3-1.7B", sharing="lora", quantize="4bit")
    if not THERE:
        with pytest.raises(ModelError, match="bitsandbytes"):
            load_team(AGENTS, sharing="lora", quantize="4bit")
