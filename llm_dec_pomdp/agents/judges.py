# pyright: basic
"""LLM judges: the log-probability of a text after a prefix, and of its end.

One interface, `types.TextJudge`, serves the writing tasks with an LLM judge (`envs.judging`), reward models, best-of-k
and perplexity. A learned reward is the value of a text a after a history h, the log-odds that the model ends the text
where it ends:

    r(h, a) = log (p / (1 - p)),   p = pi(end | h, a)                                                           (value)

The value head is therefore the row of the output layer for the end token, which every language model has. A reward
model is loaded, adapted, placed, saved and exported like any other model. (Rewards as the probability of a token:
generative verifiers, arXiv:2408.15240.)
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from ..types import Completion, Likelihood, Message, TextJudge, conversation
from .base import Policy, Request
from .language_model.names import adapter_of
from .language_model.policy import BASE, LanguageModel

_SURE = -1e-6  # upper bound of log p, above which 1 - p is lost in 32 bits
_BATCH = 32  # texts per forward pass
_HASH = 12  # hexadecimal digits of the hash in a name


# --- values -----------------------------------------------------------------------------------------------------------


def values(policy: Policy, samples: Sequence[tuple[str, Completion]]) -> torch.Tensor:
    """Return r(h, a) of texts [N], in nats, with gradient; equation (value) of the module.

    Args:
        policy: The reward model.
        samples: N pairs (agent, completion); the last token of each is the end token, see `ended`.
    """
    logprobs, mask = policy.token_logprobs(samples, 1.0)
    last = mask.sum(-1).long() - 1
    sure = logprobs.gather(-1, last[:, None])[:, 0].clamp(max=_SURE)
    return sure - torch.log(-torch.expm1(sure))  # (value)


def value(likelihood: Likelihood) -> float:
    """Return r(h, a) of a text, in nats, from the likelihood that a judge gives."""
    sure = min(likelihood.end, _SURE)
    return sure - math.log(-math.expm1(sure))  # (value)


def end_of(policy: Policy, agent: str) -> int:
    """Return the token that the chat template of a policy writes at the end of a text.

    Raises:
        ValueError: The policy cannot tokenize a given text.
    """
    limit = 1
    while (written := policy.to_completion(Request(agent, conversation("")), "", limit)).truncated:
        limit *= 2  # some templates write an empty thought before a text
    if not written.token_ids:
        raise ValueError(f"a {type(policy).__name__} cannot tokenize a given text; give a language model")
    return written.token_ids[-1]


def ended(completion: Completion, end: int) -> Completion:
    """Return a completion whose last token is the end token, in place of the last token of a truncated text."""
    ids = completion.token_ids
    return completion if ids[-1:] == (end,) else replace(completion, token_ids=(*ids[:-1], end))


# --- judges -----------------------------------------------------------------------------------------------------------


class ModelJudge:
    """A language model of this process as an LLM judge.

    A text longer than half the model's context is cut at its end. A prefix longer than the remaining context is cut at
    its beginning.

    Args:
        policy: A `LanguageModel`, which judges with its current weights.
        model: The name of the model.
        agent: The agent whose adapter judges, if agents have adapters.
        limit: Maximum number of tokens of a text with its end token. Default: half the context.

    Raises:
        TypeError: The policy is not a `LanguageModel`.
    """

    def __init__(self, policy: object, model: str = "", *, agent: str = "agent_0", limit: int | None = None) -> None:
        if not isinstance(policy, LanguageModel):
            raise TypeError(f"policy is a {type(policy).__name__}; a judge needs a language model of this process")
        self.policy, self._model, self._agent = policy, model, agent
        context = getattr(policy.model.config, "max_position_embeddings", None) or 0
        self._context = context if context > 1 else 1 << 30  # some model families have no limit
        self._limit = min(limit or self._context, self._context // 2)
        self._end = end_of(policy, agent)

    @property
    def name(self) -> str:
        """Return the name of the model and the first digits of the SHA-256 of its weights."""
        model = Path(self._model).stem if self._model.endswith(".gguf") else self._model
        return f"{model}@{self._hash}"

    @functools.cached_property
    def _hash(self) -> str:
        digest = hashlib.sha256()
        base = BASE in (self.policy.adapters or {}).values()  # if the base is the judge, adapters do not matter
        for name, tensor in self.policy.model.named_parameters():
            if adapter_of(name) is None or not base:
                digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()[:_HASH]

    def log_likelihoods(self, prefixes: Sequence[str | tuple[Message, ...]], texts: Sequence[str]) -> list[Likelihood]:
        """Return the log-probabilities of texts; see `TextJudge`. Texts with the same prefix share its forward pass."""
        rows = [self._row(prefix, text) for prefix, text in zip(prefixes, texts, strict=True)]
        likelihoods: dict[int, Likelihood] = {}
        starts = functools.cache(self._starts)  # joint actions share a source
        for numbers in _batches([row for row, _ in rows]):
            with torch.no_grad():
                logprobs, _ = self.policy.token_logprobs([(self._agent, rows[n][0]) for n in numbers], 1.0)
            for n, nats in zip(numbers, logprobs.double().tolist(), strict=True):
                row, cut = rows[n]
                tokens = len(row.token_ids) - 1
                ids = row.token_ids[:tokens]
                likelihoods[n] = Likelihood(tuple(nats[:tokens]), nats[tokens], starts(ids), cut)
        return [likelihoods[n] for n in range(len(rows))]

    def _starts(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """Return the length of the text before each token."""
        return tuple(len(self.policy.raw_text(ids[:n])) for n in range(len(ids)))

    def _row(self, prefix: str | tuple[Message, ...], text: str) -> tuple[Completion, bool]:
        """Return a completion of prefix, text and end token, and whether the prefix or the text was cut."""
        prompts = self.policy.prompts
        if isinstance(prefix, str):
            before, ids = prompts.plain_ids(prefix), prompts.text_ids(text)
        else:
            before, (*ids, _) = prompts.answer(prefix, text)
        kept = ids[: self._limit - 1]
        room = self._context - len(kept) - 1
        cut = len(kept) < len(ids) or len(before) > room
        return Completion(text, tuple(before[-room:]), (*kept, self._end)), cut


def _batches(rows: Sequence[Completion]) -> list[list[int]]:
    """Return batches of indices; texts with the same prefix are adjacent, and padding at most doubles a prefix."""
    lengths = [max(1, len(row.prompt_ids)) for row in rows]
    batches: list[list[int]] = []
    for n in sorted(range(len(rows)), key=lambda n: (lengths[n], rows[n].prompt_ids, len(rows[n].token_ids))):
        if not batches or len(batches[-1]) == _BATCH or lengths[n] > 2 * lengths[batches[-1][0]]:
            batches.append([])
        batches[-1].append(n)
    return batches


@functools.lru_cache(maxsize=2)
def load_judge(name: str) -> TextJudge:
    """Return the LLM judge with a model's name, cached in the process; on CUDA if available, always in 32 bits.

    Args:
        name: A name of the table in `agents.io.models`. A server has to return log-probabilities of its prompt.

    Raises:
        ModelError: The model cannot be loaded.
    """
    from .io.models import load_model, server_model
    from .remote import RemoteJudge

    if server := server_model(name):
        return RemoteJudge(*server, api_key=os.environ.get("OPENAI_API_KEY"))
    return ModelJudge(LanguageModel(*load_model(name, dtype="float32")), name)
