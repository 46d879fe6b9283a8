# pyright: basic
"""A learnt reward: the value that a language model gives to a text.

The value of a text a after a history h is the log-odds that the model would end the text where it ends,

    r(h, a) = log (p / (1 - p)),   p = pi(end | h, a)                                                           (value)

So the head is the row of the output layer for the end of a text, which every language model has, and a reward model is
loaded, adapted, placed, saved and exported like any other. (A reward as the probability of a token: generative
verifiers, arXiv:2408.15240.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ..types import Completion, Message, conversation
from .base import Request, TeachablePolicy, TrainablePolicy

_SURE = -1e-6  # the largest log p that counts: beyond it 1 - p is lost in 32 bits


def values(policy: TrainablePolicy, samples: Sequence[tuple[str, Completion]]) -> torch.Tensor:
    """r(h, a) of texts [N], in nats, with gradient.

    Args:
        policy: The reward model.
        samples: (agent, completion) pairs, each with the end token as its last one, see `ended`.
    """
    logprobs, mask = policy.token_logprobs(samples, 1.0)
    last = mask.sum(-1).long() - 1
    sure = logprobs.gather(-1, last[:, None])[:, 0].clamp(max=_SURE)
    return sure - torch.log(-torch.expm1(sure))  # (value)


def end_of(policy: TeachablePolicy, agent: str) -> int:
    """The token that ends a policy's texts."""
    return policy.written(Request(agent, conversation("")), "", 1).token_ids[-1]


def ended(completion: Completion, end: int) -> Completion:
    """The text with the end token as its last one; in place of its last token, where a token limit cut the text."""
    ids = completion.token_ids
    return completion if ids[-1:] == (end,) else replace(completion, token_ids=(*ids[:-1], end))


class Judge:
    """A reward model as a function of what a team was told and what it said.

    Args:
        policy: The reward model; it is the policy of one agent, which writes all parts.
        limit: Longest text, in tokens; a longer one is judged by its beginning.

    Raises:
        TypeError: The policy cannot be shown a text.
    """

    agent = "agent_0"

    def __init__(self, policy: object, limit: int) -> None:
        if not isinstance(policy, TeachablePolicy):
            raise TypeError(f"a {type(policy).__name__} cannot be shown a text; give a language model of this process")
        self.policy, self.limit = policy, limit
        self._end = end_of(policy, self.agent)

    def __call__(self, history: Sequence[Message], text: str) -> float:
        """The value of a joint text after a history."""
        said = self.policy.written(Request(self.agent, tuple(history)), text, self.limit)
        with torch.no_grad():
            return values(self.policy, [(self.agent, ended(said, self._end))]).item()
