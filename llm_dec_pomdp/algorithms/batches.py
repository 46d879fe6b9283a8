# pyright: basic
"""Samples in the form that an updater needs: weights, batches and tensors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from ..seeding import generator
from ..types import Completion, grouped
from .options import UpdaterOptions
from .samples import Sample


def set_weights(samples: Sequence[Sample], options: UpdaterOptions) -> list[Sample]:
    """Return the samples with their `loss_weight`: their weight in the mean of their agent's objective."""
    result: list[Sample] = []
    for of_agent in grouped(samples, lambda s: s.agent).values():
        weights = options.objective.weights(of_agent)
        result += [replace(s, loss_weight=weight) for s, weight in zip(of_agent, weights, strict=True)]
    return result


def in_minibatches(samples: Sequence[Sample], count: int, seed: int) -> list[list[Sample]]:
    """Divide the samples of each agent into at most `count` minibatches, without splitting the samples of a prompt.

    The order follows from the seed.
    """
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
    """Return the advantages of completions [N], or of tokens [N, L] where a sample has `tokens`.

    Args:
        samples: N samples.
        mask: 1 on their tokens [N, L].
        options: Options of the updater.

    Raises:
        ValueError: A sample has `tokens`, but not one for each token, or the ratio is not per token.
    """
    whole = mask.new_tensor([s.advantage for s in samples])
    if not any(s.tokens for s in samples):
        return whole
    if (level := options.objective.ratio) != "token":
        raise ValueError(f"a sample has an advantage for each token, but ratio is {level!r}; set ratio to 'token'")
    factors = torch.ones_like(mask)
    for row, s in enumerate(samples):
        if s.tokens and len(s.tokens) != len(s.completion.token_ids):
            raise ValueError(
                f"a completion of {s.agent!r} has {len(s.completion.token_ids)} tokens, and its sample has "
                f"{len(s.tokens)} advantages; give one for each token (Sample.tokens)"
            )
        factors[row, : len(s.tokens)] = mask.new_tensor(s.tokens)
    return whole[:, None] * factors


def micro_batches(samples: Sequence[Sample], size: int) -> list[list[Sample]]:
    """Return batches of at most `size` samples, with samples of the same prompt next to each other."""
    ordered = sorted(samples, key=lambda s: (len(s.completion.prompt_ids), s.completion.prompt_ids))
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]


def texts_of(samples: Sequence[Sample]) -> list[tuple[str, Completion]]:
    """Return the (agent, completion) pairs that `Policy.token_logprobs` takes."""
    return [(s.agent, s.completion) for s in samples]


def unpad(logprobs: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the rows of log-probabilities [N, L] without padding and without gradient."""
    return logprobs.detach()[mask.bool()].split(mask.sum(-1).int().tolist())


def old_logprobs(
    samples: Sequence[Sample], logprobs: torch.Tensor, mask: torch.Tensor, known: Mapping[int, torch.Tensor]
) -> torch.Tensor:
    """Return log pi_old [N, L] without gradient: the value in `known` by `Sample.index`, else the current log pi."""
    present = zip(samples, unpad(logprobs, mask), strict=True)
    old = logprobs.detach().clone()
    old[mask.bool()] = torch.cat([known.get(s.index, row) for s, row in present])
    return old


def recorded_logprobs(samples: Sequence[Sample], mask: torch.Tensor) -> torch.Tensor:
    """Return the log pi [N, L] that the sampler recorded, 0 on padding."""
    recorded = torch.zeros_like(mask)
    recorded[mask.bool()] = mask.new_tensor([p for s in samples for p in s.completion.logprobs])
    return recorded
