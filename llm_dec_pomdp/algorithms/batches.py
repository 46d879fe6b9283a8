"""Samples weighed and put in batches, for an updater."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from ..seeding import generator
from .options import UpdaterOptions
from .samples import Sample


def weigh(samples: Sequence[Sample], options: UpdaterOptions) -> list[Sample]:
    """Give every sample its weight in the mean of its agent's objective."""
    weighed: list[Sample] = []
    for agent in dict.fromkeys(s.agent for s in samples):
        own = [s for s in samples if s.agent == agent]
        tokens = sum(s.share * len(s.completion.token_ids) for s in own)
        terms = own if options.ratio != "trajectory" else {s.trajectory: s for s in own}.values()
        texts = sum(s.share for s in terms)
        for s in own:
            if options.ratio == "token" and options.average == "tokens":
                weight = s.share / tokens
            else:
                weight = s.share / (texts * (len(s.completion.token_ids) if options.ratio == "token" else 1))
            weighed.append(replace(s, weight=weight))
    return weighed


def in_minibatches(samples: Sequence[Sample], count: int, seed: int) -> list[list[Sample]]:
    """Cut the samples into at most `count` parts of whole prompts, each with its share of every agent's.

    Args:
        samples: Of one policy.
        count: How many parts, if there are as many prompts.
        seed: The order of the prompts follows from it.
    """
    if count == 1:
        return [list(samples)]
    prompts: dict[str, dict[tuple[int, ...], list[Sample]]] = {}
    for s in samples:
        prompts.setdefault(s.agent, {}).setdefault(s.completion.prompt_ids, []).append(s)
    parts: list[list[Sample]] = [[] for _ in range(count)]
    for agent, own in prompts.items():
        blocks = [own[key] for key in sorted(own)]
        order: list[int] = generator(seed, agent).permutation(len(blocks)).tolist()
        cuts = [len(order) * k // count for k in range(count + 1)]
        for part, (first, last) in zip(parts, itertools.pairwise(cuts), strict=True):
            part += [s for i in order[first:last] for s in blocks[i]]
    return [part for part in parts if part]


def in_forward_passes(samples: Sequence[Sample], size: int) -> list[list[Sample]]:
    """Batches of `size`, same prompts together."""
    ordered = sorted(samples, key=lambda s: (len(s.completion.prompt_ids), s.completion.prompt_ids))
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]
