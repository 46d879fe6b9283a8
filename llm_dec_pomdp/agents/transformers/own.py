# pyright: basic
"""The engine of a model that draws its own texts: nothing is loaded, and it computes what an update computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..base import Sampling
from ..engines import Prompt, Sampled
from .batching import batches
from .decoding import sample

if TYPE_CHECKING:
    from .language_model import LanguageModel


class OwnLoop:
    """Draws with the model of a policy itself; prompts of similar length at once."""

    def __init__(self, policy: LanguageModel) -> None:
        self._policy = policy

    def load(self, policy: LanguageModel, version: int) -> None:
        """They are its weights."""

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        """See `Engine`. Where memory does not suffice, fewer are drawn at once."""
        policy = self._policy
        drawn: list[list[Sampled]] = [[] for _ in prompts]

        def draw_rest(rows: int) -> None:
            """What is not drawn yet."""
            rest = [Prompt(p.ids, p.seeds[len(done) :], p.adapter) for p, done in zip(prompts, drawn, strict=True)]
            for batch in batches(rest, rows):
                own = [prompt for _, prompt in batch]
                for (number, _), sequences in zip(
                    batch, sample(policy.model, own, sampling, stop_ids, policy.pad_id), strict=True
                ):
                    drawn[number] += sequences

        with policy.precision():
            policy.batch_rows.run(draw_rest)
        return drawn
