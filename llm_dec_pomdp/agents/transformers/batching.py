# pyright: basic
"""Which sequences are sampled at once: prompts of similar length."""

from __future__ import annotations

from collections.abc import Sequence

from ..engines import Prompt

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
