"""What the writing environments share: two agents, one source text, the gated reward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ...types import Score, TaskItem
from ..base import TextTask
from . import reward


class WritingTask(TextTask):
    """Two agents write a shorter and a longer text about the same source.

    A subclass declares `roles`, `source`, `formula` and what each role is asked for in `requests`.
    """

    components = reward.COMPONENTS
    reward_range = (0.0, 3.0)
    # All 12 connective categories give T = 0.4 + 11 * 0.05 = 0.95, so the style part ends at 0.4 * 0.95 + 0.6.
    max_return = 2.98

    formula: reward.WritingFormula
    requests: ClassVar[tuple[str, str]]

    def observe(self, item: TaskItem, agent: str) -> str:
        """The source text, then the request; the order matters to small models."""
        return f"{self.source_text(item)}\n\n{self.requests[self.possible_agents.index(agent)]}"

    def source_text(self, item: TaskItem) -> str:
        """The source as it is shown."""
        return item.prompt.strip()

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """The gated reward of `envs.writing.reward`; the source does not enter it."""
        first, second = (actions[agent] for agent in self.possible_agents)
        return reward.score(first, second, self.formula)
