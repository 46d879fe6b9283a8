"""Requests of two agents of different lengths, who answers them, and what is kept of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from models import AGENTS

from llm_dec_pomdp.agents.base import Request, Sampling
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.types import Completion, conversation

REQUESTS = [
    Request("agent_0", conversation("say one of the words please"), (1, 2, 3)),
    Request("agent_1", conversation("red"), (4, 5)),
    Request("agent_0", conversation("say green", "blue", "again please"), (6, 7)),
]
SHORT = Sampling(max_new_tokens=10)


def pairs(policy: LanguageModel, sampling: Sampling = SHORT) -> list[tuple[str, Completion]]:
    """Every completion of `REQUESTS` with its agent."""
    answers = policy.generate(REQUESTS, sampling)
    return [(r.agent, c) for r, answer in zip(REQUESTS, answers, strict=True) for c in answer]


def recorded(samples: Sequence[tuple[str, Completion]], width: int) -> torch.Tensor:
    """The log-probabilities that were noted while sampling [N, width]."""
    return torch.tensor([[*c.logprobs, *[0.0] * (width - len(c.logprobs))] for _, c in samples])


def adapted(folder: str, **options: Any) -> LanguageModel:
    """One base with an adapter per agent that is not zero any more."""
    policy: Any = load_team(AGENTS, folder, sharing="lora", **options).members["agent_0"]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        for parameter in policy.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
    return policy


def kept_bytes(policy: LanguageModel, samples: Sequence[tuple[str, Completion]]) -> int:
    """What the forward pass of an update keeps for the way back, beside the model."""
    pointers = {t.untyped_storage().data_ptr() for t in (*policy.model.parameters(), *policy.model.buffers())}
    storages: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in pointers:
            storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        policy.token_logprobs(samples, 1.0)
    return sum(storage.nbytes() for storage in storages.values())
