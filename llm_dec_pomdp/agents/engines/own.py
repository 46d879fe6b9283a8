# pyright: basic
"""The engine of a model that draws its own texts, in batches of prompts of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..base import Sampling
from ..language_model.decoding import sample
from .base import Prompt, Sampled

if TYPE_CHECKING:
    from ..language_model.base import ModelPolicy

Batch = list[tuple[int, Prompt]]  # places of prompts, each prompt with the seeds that are sampled now


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


class OwnLoop:
    """Draws texts with the model of a policy itself, which is always loaded."""

    def __init__(self, policy: ModelPolicy) -> None:
        self._policy = policy

    def load(self, policy: ModelPolicy, version: int) -> None:
        """Nothing to load."""

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        """See `Engine`. Where memory does not suffice, fewer texts are drawn at once."""
        policy = self._policy
        drawn: list[list[Sampled]] = [[] for _ in prompts]

        def draw_rest(rows: int) -> None:
            """What is not drawn yet."""
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
