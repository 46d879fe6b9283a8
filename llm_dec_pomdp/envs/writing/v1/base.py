"""Base of the writing environments of v1: the published levels on words, times four properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....types import Score, TaskItem
from ...facts import Facts
from .. import reward
from ..base import WritingTask
from . import quality


class HardenedWritingTask(WritingTask):
    """The same task with the reward of v1: the published levels on words, times the properties of `quality`."""

    @property
    def facts(self) -> Facts:
        """Return the facts, with the four properties among the diagnostics."""
        known = super().facts
        return replace(known, diagnostics=(*known.diagnostics, *quality.PROPERTIES), reference_share=0.9)

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the published score with every component multiplied by the product of the properties."""
        first, second = self.possible_agents
        pair = quality.WordPair(actions[first], actions[second])
        plain = reward.score(pair, self.formula)
        found = pair.properties(self.source_text(item)) if plain.total else dict.fromkeys(quality.PROPERTIES, 0.0)
        return reward.multiplied(plain, found)
