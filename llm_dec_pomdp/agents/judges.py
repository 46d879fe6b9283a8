# pyright: basic
"""Language models that judge texts: how likely is a text after a prefix, and how likely does it end there?

One interface, `types.TextJudge`, serves the judged writing tasks (`envs.judging`), reward models, best-of-k and
perplexity. A learnt reward is the value of a text a after a history h: the log-odds that the model would end the text
where it ends,

    r(h, a) = log (p / (1 - p)),   p = pi(end | h, a)                                                           (value)

So the head is the row of the output layer for the end of a text, which every language model has, and a reward model is
loaded, adapted, placed, saved and exported like any other. (A reward as the probability of a token: generative
verifiers, arXiv:2408.15240.)
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

_SURE = -1e-6  # the largest log p that counts: beyond it 1 - p is lost in 32 bits
_BATCH = 32  # texts judged at once
_HASH = 12  # digits of a hash that a name has


# --- values -----------------------------------------------------------------------------------------------------------


def values(policy: Policy, samples: Sequence[tuple[str, Completion]]) -> torch.Tensor:
    """r(h, a) of texts [N], in nats, with gradient.

    Args:
        policy: The reward model.
        samples: (agent, completion) pairs, each with the end token as its last one, see `ended`.
    """
    logprobs, mask = policy.token_logprobs(samples, 1.0)
    last = mask.sum(-1).long() - 1
    sure = logprobs.gather(-1, last[:, None])[:, 0].clamp(max=_SURE)
    return sure - torch.log(-torch.expm1(sure))  # (value)


def value(likelihood: Likelihood) -> float:
    """r(h, a) of a text, in nats, as a judge has it."""
    sure = min(likelihood.end, _SURE)
    return sure - math.log(-math.expm1(sure))  # (value)


def end_of(policy: Policy, agent: str) -> int:
    """Return the token that ends a policy's texts, as its chat template ends them.

    Raises:
        ValueError: The policy cannot be shown a text.
    """
    limit = 1
    while (written := policy.to_completion(Request(agent, conversation("")), "", limit)).truncated:
        limit *= 2  # some templates write an empty thought before a text
    if not written.token_ids:
        raise ValueError(f"a {type(policy).__name__} cannot be shown a text; give a language model")
    return written.token_ids[-1]


def ended(completion: Completion, end: int) -> Completion:
    """The text with the end token as its last one; in place of its last token, where a token limit cut the text."""
    ids = completion.token_ids
    return completion if ids[-1:] == (end,) else replace(completion, token_ids=(*ids[:-1], end))


# --- judges -----------------------------------------------------------------------------------------------------------


class ModelJudge:
    """A language model of this process as a judge.

    A text that is longer than half the model's context is judged by its beginning, and of a prefix that does not fit
    beside it the end is read.

    Args:
        policy: A `LanguageModel`; its present weights judge.
        model: Its name.
        agent: Whose weights judge, where each agent has an adapter.
        limit: Most tokens of a text and its end; half the context when left out.

    Raises:
        TypeError: The policy cannot be shown a text.
    """

    def __init__(self, policy: object, model: str = "", *, agent: str = "agent_0", limit: int | None = None) -> None:
        if not isinstance(policy, LanguageModel):
            raise TypeError(f"a {type(policy).__name__} cannot be shown a text; give a language model of this process")
        self.policy, self._model, self._agent = policy, model, agent
        context = getattr(policy.model.config, "max_position_embeddings", None) or 0
        self._context = context if context > 1 else 1 << 30  # some families have none
        self._limit = min(limit or self._context, self._context // 2)
        self._end = end_of(policy, agent)

    @property
    def name(self) -> str:
        """The model, and the beginning of the SHA-256 of its weights."""
        model = Path(self._model).stem if self._model.endswith(".gguf") else self._model
        return f"{model}@{self._hash}"

    @functools.cached_property
    def _hash(self) -> str:
        digest = hashlib.sha256()
        base = BASE in (self.policy.adapters or {}).values()  # whose adapters are no part of it
        for name, tensor in self.policy.model.named_parameters():
            if adapter_of(name) is None or not base:
                digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()[:_HASH]

    def log_likelihoods(self, prefixes: Sequence[str | tuple[Message, ...]], texts: Sequence[str]) -> list[Likelihood]:
        """See `TextJudge`. Texts with the same prefix share its pass through the model."""
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
        """Return a text with the end token after it, behind its prefix, and whether either was cut."""
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
    """Numbers of texts, with the same prefix side by side; no prefix is padded to more than twice its length."""
    lengths = [max(1, len(row.prompt_ids)) for row in rows]
    batches: list[list[int]] = []
    for n in sorted(range(len(rows)), key=lambda n: (lengths[n], rows[n].prompt_ids, len(rows[n].token_ids))):
        if not batches or len(batches[-1]) == _BATCH or lengths[n] > 2 * lengths[batches[-1][0]]:
            batches.append([])
        batches[-1].append(n)
    return batches


@functools.lru_cache(maxsize=2)
def load_judge(name: str) -> TextJudge:
    """The judge of a model's name, loaded once in a process; on CUDA where there is one, always in 32 bits.

    Args:
        name: See the table of `agents.loading`; a server has to give log-probabilities of its prompt.

    Raises:
        ModelError: The model cannot be loaded.
    """
    from .loading import load_model, server_model
    from .remote import RemoteJudge

    if server := server_model(name):
        return RemoteJudge(*server, api_key=os.environ.get("OPENAI_API_KEY"))
    return ModelJudge(LanguageModel(*load_model(name, dtype="float32")), name)
