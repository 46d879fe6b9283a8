# pyright: basic
"""Which sequences are sampled at once: prompts of similar length, and those of several models together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from .decoding import Prompt

Batch = list[tuple[int, Prompt]]  # numbers of prompts, each with the seeds that are sampled now


def batches(prompts: Sequence[Prompt], rows: int) -> list[Batch]:
    """Prompts sorted by length in batches of at most `rows` sequences.

    A prompt with more sequences than that is in several batches, its seeds in order.
    """
    filled: list[Batch] = []
    room = 0
    for number in sorted(range(len(prompts)), key=lambda number: len(prompts[number].ids)):
        prompt = prompts[number]
        for first in range(0, len(prompt.seeds), rows):
            seeds = prompt.seeds[first : first + rows]
            if room < len(seeds):
                filled.append([])
                room = rows
            filled[-1].append((number, Prompt(prompt.ids, seeds, prompt.adapter)))
            room -= len(seeds)
    return filled


def equally_large(each: Sequence[Sequence[Batch]]) -> Iterator[list[tuple[int, Batch]]]:
    """(model, batch) pairs to sample as one: the n-th batches of all models with as many sequences."""
    for nth in itertools.zip_longest(*each):
        alike: dict[int, list[tuple[int, Batch]]] = {}
        for model, batch in enumerate(nth):
            if batch is not None:
                alike.setdefault(sum(len(prompt.seeds) for _, prompt in batch), []).append((model, batch))
        yield from alike.values()
