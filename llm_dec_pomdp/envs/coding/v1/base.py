"""Base of the code environments of v1: reference pairs that need both functions, and the reward of v1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from ....sandbox import cached_verdicts
from ....types import Score, TaskItem
from ...facts import Facts
from ..base import CodeTask, gold_pairs
from . import reward


class HardenedCodeTask(CodeTask):
    """The same task with the reward of v1.

    `gold_file` names the file in `data/gold` with reference pairs by task id, in which both functions are needed. A row
    without such a pair keeps its own reference.
    """

    gold_file: ClassVar[str]

    @property
    def facts(self) -> Facts:
        """Return the facts, with the diagnostics of v1."""
        return replace(super().facts, diagnostics=reward.DIAGNOSTICS)

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Return the rows with the reference pairs of `gold_file`."""
        gold = gold_pairs(self.gold_file)
        return tuple(replace(item, reference=gold.get(item.id, item.reference)) for item in super().prepare(items))

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the reward of `envs.coding.v1.reward`."""
        return reward.score(item, self.program(item, actions), cached_verdicts)
