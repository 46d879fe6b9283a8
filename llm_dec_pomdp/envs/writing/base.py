"""What the writing environments share: two agents, one source text, the gated reward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Unpack

from ...registries import nearest
from ...types import Score, TaskItem
from ..facts import Facts
from ..tasks import Tasks
from ..text_task import TextOptions, TextTask
from . import reward
from .feedback import MODES, message


class WritingOptions(TextOptions, total=False):
    """The options that every writing task takes beside `tasks`; see `WritingTask`."""

    feedback: str


class WritingTask(TextTask):
    """Two agents write a shorter and a longer text about the same source.

    A subclass says its `source`, `formula` and what each role is asked for in `requests`.

    Args:
        feedback: What both are told from the second turn on, one of `envs.writing.feedback.MODES`.
        tasks, common: See `TextTask`.
    """

    # All 12 connective categories give T = 0.4 + 11 * 0.05 = 0.95, so the style part ends at 0.4 * 0.95 + 0.6.
    declared = Facts(
        name="writing",
        components=reward.COMPONENTS,
        diagnostics=reward.DIAGNOSTICS,
        score_range=(0.0, 3.0),
        best=2.98,
    )

    formula: reward.WritingFormula
    requests: ClassVar[tuple[str, str]]

    def __init__(
        self, tasks: Tasks = "sample", *, feedback: str = "level_feedback", **common: Unpack[TextOptions]
    ) -> None:
        if feedback not in MODES:
            raise ValueError(f"feedback {feedback!r} does not exist; {nearest(feedback, MODES)}")
        super().__init__(tasks, **common)
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
        return dict.fromkeys(self.possible_agents, message(self.feedback, score, self.formula, self.declared.roles))
