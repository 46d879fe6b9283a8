"""What the writing environments share: two agents, one source text, the gated reward."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from ...registries import nearest
from ...types import Score, TaskItem
from ..pays import Pays
from ..tasks import Tasks
from ..text_task import TextTask
from . import quality, reward
from .feedback import MODES, message


class WritingTask(TextTask):
    """Two agents write a shorter and a longer text about the same source.

    A subclass declares `roles`, `source`, `formula` and what each role is asked for in `requests`.

    Args:
        tasks, split, fields, max_turns, pays, render_mode: See `TextTask`.
        feedback: What both are told from the second turn on, one of `envs.writing.feedback.MODES`.
    """

    components = reward.COMPONENTS
    diagnostics = reward.DIAGNOSTICS
    score_range = (0.0, 3.0)
    # All 12 connective categories give T = 0.4 + 11 * 0.05 = 0.95, so the style part ends at 0.4 * 0.95 + 0.6.
    max_return = 2.98

    formula: reward.WritingFormula
    requests: ClassVar[tuple[str, str]]

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        split: str | None = None,
        fields: Mapping[str, str] | None = None,
        max_turns: int = 1,
        pays: Pays = "final",
        render_mode: str | None = None,
        feedback: str = "level_feedback",
    ) -> None:
        if feedback not in MODES:
            raise ValueError(f"feedback {feedback!r} does not exist; {nearest(feedback, MODES)}")
        super().__init__(tasks, split=split, fields=fields, max_turns=max_turns, pays=pays, render_mode=render_mode)
        self.feedback = feedback

    def observe(self, item: TaskItem, agent: str) -> str:
        """The source text, then the request; the order matters to small models."""
        return f"{self.source_text(item)}\n\n{self.requests[self.possible_agents.index(agent)]}"

    def source_text(self, item: TaskItem) -> str:
        """The source as it is shown."""
        return item.prompt.strip()

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """The gated reward of `envs.writing.reward`; the source does not enter it."""
        first, second = self.possible_agents
        return reward.score(reward.PublishedPair(actions[first], actions[second]), self.formula)

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        """The levels that passed, in words, the same for both."""
        return dict.fromkeys(self.possible_agents, message(self.feedback, score, self.formula, self.roles))


class HardenedWritingTask(WritingTask):
    """The same task paid by v1: the gated formula measured as `quality` does, times its properties."""

    diagnostics = (*reward.DIAGNOSTICS, *quality.PROPERTIES)
    max_return = 3.0
    reference_share = 0.9

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """The formula of v0 over stricter measures, every component multiplied by the same factor."""
        first, second = self.possible_agents
        pair = quality.HardenedPair(actions[first], actions[second], self.source_text(item))
        plain = reward.score(pair, self.formula)
        if not plain.total:
            return dataclasses.replace(
                plain, diagnostics={**dict.fromkeys(quality.PROPERTIES, 0.0), **plain.diagnostics}
            )
        properties = pair.properties()
        factor = quality.factor(properties)
        parts = {name: value * factor for name, value in plain.components.items()}
        return Score(sum(parts.values()), parts, {**plain.diagnostics, **properties}, plain.notes)
