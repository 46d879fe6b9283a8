"""Requests of two agents of different lengths, and what a policy answers to them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from llm_dec_pomdp.agents.base import Request, Sampling
from llm_dec_pomdp.agents.transformers.language_model import LanguageModel
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
