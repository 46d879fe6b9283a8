# pyright: basic
"""The default engine: the model itself samples, in batches of prompts of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..base import Sampling
from ..language_model.decoding import sample
from .base import Prompt, Sampled

if TYPE_CHECKING:
    from ..language_model.base import ModelPolicy

Batch = list[tuple[int, Prompt]]  # indices of prompts, and each prompt with the seeds of this batch


def batches(prompts: Sequence[Prompt], rows: int) -> list[Batch]:
    """Return batches of prompts, sorted by length, with at most `rows` sequences each.

    A prompt with more seeds than `rows` is split over several batches, with its seeds in order.
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


class OwnLoop:
    """The engine that samples with the model of the policy itself."""

    def __init__(self, policy: ModelPolicy) -> None:
        self._policy = policy

    def load(self, policy: ModelPolicy, version: int) -> None:
        """Do nothing: the model has its current weights already."""

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        """Sample completions; see `Engine`. If memory is too small, batches get smaller."""
        policy = self._policy
        drawn: list[list[Sampled]] = [[] for _ in prompts]

        def draw_rest(rows: int) -> None:
            """Sample the completions that are still missing."""
            rest = [Prompt(p.ids, p.seeds[len(done) :], p.adapter) for p, done in zip(prompts, drawn, strict=True)]
            for batch in batches(rest, rows):
                encoded = [prompt for _, prompt in batch]
                reading = (policy.pad_id, policy.raw_text, policy.tokenless)
                texts = sample(policy.model, encoded, sampling, stop_ids, *reading)
                for (number, _), sequences in zip(batch, texts, strict=True):
                    drawn[number] += sequences

        with policy.precision():
            policy.batch_rows.run(draw_rest)
        return drawn
