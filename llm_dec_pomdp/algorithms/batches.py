# pyright: basic
"""Samples as an updater takes them: weights, batches, and tensors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from ..seeding import generator
from ..types import Completion, grouped
from .options import UpdaterOptions
from .samples import Sample


def weigh(samples: Sequence[Sample], options: UpdaterOptions) -> list[Sample]:
    """Give every sample its weight in the mean of its agent's objective."""
    weighed: list[Sample] = []
    for of_agent in grouped(samples, lambda s: s.agent).values():
        weights = options.objective.weights(of_agent)
        weighed += [replace(s, weight=weight) for s, weight in zip(of_agent, weights, strict=True)]
    return weighed


def in_minibatches(samples: Sequence[Sample], count: int, seed: int) -> list[list[Sample]]:
    """Divide the samples of each agent among at most `count` parts, by whole prompts; the seed decides their order."""
    if count == 1:
        return [list(samples)]
    parts: list[list[Sample]] = [[] for _ in range(count)]
    for agent, of_agent in grouped(samples, lambda s: s.agent).items():
        prompts = grouped(of_agent, lambda s: s.completion.prompt_ids)
        blocks = [prompts[key] for key in sorted(prompts)]
        order: list[int] = generator(seed, agent).permutation(len(blocks)).tolist()
        cuts = [len(order) * k // count for k in range(count + 1)]
        for part, (first, last) in zip(parts, itertools.pairwise(cuts), strict=True):
            part += [s for i in order[first:last] for s in blocks[i]]
    return [part for part in parts if part]


def advantages_of(samples: Sequence[Sample], mask: torch.Tensor, options: UpdaterOptions) -> torch.Tensor:
    """Advantages of texts [N], or of tokens [N, L] where a sample has `tokens`.

    Args:
        samples: N.
        mask: 1 on their tokens [N, L].
        options: Of the updater.

    Raises:
        ValueError: A sample has not one number for each token, or the ratio is that of whole texts.
    """
    whole = mask.new_tensor([s.advantage for s in samples])
    if not any(s.tokens for s in samples):
        return whole
    if (level := options.objective.ratio) != "token":
        raise ValueError(f"a sample has advantages of tokens, and ratio={level!r} is of texts; use 'token'")
    factors = torch.ones_like(mask)
    for row, s in enumerate(samples):
        if s.tokens and len(s.tokens) != len(s.completion.token_ids):
            raise ValueError(
                f"a text of {s.agent!r} has {len(s.completion.token_ids)} tokens, and its sample advantages for "
                f"{len(s.tokens)}; give one for each (Sample.tokens)"
            )
        factors[row, : len(s.tokens)] = mask.new_tensor(s.tokens)
    return whole[:, None] * factors


def in_forward_passes(samples: Sequence[Sample], size: int) -> list[list[Sample]]:
    """Batches of `size`; samples with the same prompt stand together."""
    ordered = sorted(samples, key=lambda s: (len(s.completion.prompt_ids), s.completion.prompt_ids))
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]


def texts_of(samples: Sequence[Sample]) -> list[tuple[str, Completion]]:
    """The texts of samples, as policies take them."""
    return [(s.agent, s.completion) for s in samples]


def by_text(logprobs: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rows of log-probabilities [N, L] without their padding, and without gradient."""
    return logprobs.detach()[mask.bool()].split(mask.sum(-1).int().tolist())


def old_logprobs(
    samples: Sequence[Sample], logprobs: torch.Tensor, mask: torch.Tensor, known: Mapping[int, torch.Tensor]
) -> torch.Tensor:
    """log pi_old [N, L], without gradient: as known, by the index of the sample; else the present one."""
    present = zip(samples, by_text(logprobs, mask), strict=True)
    old = logprobs.detach().clone()
    old[mask.bool()] = torch.cat([known.get(s.index, row) for s, row in present])
    return old


def recorded_logprobs(samples: Sequence[Sample], mask: torch.Tensor) -> torch.Tensor:
    """log pi of the sampler [N, L], as it was recorded; 0 on padding."""
    recorded = torch.zeros_like(mask)
    recorded[mask.bool()] = mask.new_tensor([p for s in samples for p in s.completion.logprobs])
    return recorded
