"""Base of the writing environments: two agents, one source text, and a reward with levels."""

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
    """Options of every writing task except `tasks`; see `WritingTask`."""

    feedback: str


class WritingTask(TextTask):
    """Two agents write a shorter and a longer text about the same source.

    A subclass sets its `source`, its `formula` and in `requests` the request to each role.

    Args:
        feedback: Content of the observations from the second turn on, one of `envs.writing.feedback.MODES`.
        tasks, common: See `TextTask`.
    """

    # All 12 connective categories give T = 0.4 + 11 * 0.05 = 0.95, so coherence and consistency reach 0.4 * 0.95 + 0.6.
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
        """Return the source text, then the request; small models follow a request better at the end."""
        return f"{self.source_text(item)}\n\n{self.requests[self.possible_agents.index(agent)]}"

    def source_text(self, item: TaskItem) -> str:
        """Return the source text as agents observe it."""
        return item.prompt.strip()

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the reward of `envs.writing.reward`, which does not depend on the source text."""
        first, second = self.possible_agents
        return reward.score(reward.PublishedPair(actions[first], actions[second]), self.formula)

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        """Return the message of `envs.writing.feedback`, the same for both agents."""
        return dict.fromkeys(self.possible_agents, message(self.feedback, score, self.formula, self.declared.roles))
