"""A task of its own: its items, what each agent is told, and what a joint action is worth."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ..types import Score, TaskItem
from .base import Outcome, TextDecPOMDP
from .pays import Pays, check_rule, range_of_rewards, reward_of_turn
from .tasks import TaskError, TaskSource, load_tasks


class TextTask(TextDecPOMDP):
    """A task of its own: declare the class attributes, implement `observe` and `score`.

    Args:
        tasks: `"sample"`, `"hub"`, a path, or items; see `envs.tasks.load_tasks`.
        split: "train", "test" or "all".
        fields: Field mapping for files, e.g. `{"prompt": "abstract"}`.
        max_turns: H.
        pays: What several turns pay, "final", "shifted" or "each"; see `envs.pays`.
        render_mode: None, "ansi" or "human".
    """

    source: ClassVar[TaskSource]
    max_return: ClassVar[float]  # the highest reachable score; a joint action that earns it ends the episode
    reference_share: ClassVar[float] = 1.0  # every reference earns at least this share of `max_return`

    def __init__(
        self,
        tasks: str | Path | Sequence[TaskItem] = "sample",
        *,
        split: str | None = None,
        fields: Mapping[str, str] | None = None,
        max_turns: int = 1,
        pays: Pays = "final",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(len(self.roles), max_turns, render_mode)
        check_rule(pays)
        self.pays: Pays = pays
        loaded = load_tasks(self.source, tasks, split, fields)
        for item in loaded if tasks != "sample" else ():
            if problem := self.problem(item):
                raise TaskError(f"{tasks if isinstance(tasks, (str, Path)) else 'items'}, task {item.id!r}, {problem}")
        self._items = self.prepare(loaded)
        if not self._items:
            raise TaskError(f"{self.metadata['name']} leaves out every row ({loaded[0].id!r}, ...); give others")

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """A last look at the task set as it was loaded: what is to be added to its rows or left out. Default: all."""
        return items

    def problem(self, item: TaskItem) -> str:
        """What keeps a row of the caller from ever being scored, naming its field; "" (the default): nothing."""
        return ""

    @property
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest joint reward of one turn, as `pays` has it."""
        return range_of_rewards(self.pays, self.score_range, self.max_turns)

    @property
    def items(self) -> tuple[TaskItem, ...]:
        """The task set."""
        return self._items

    @abstractmethod
    def observe(self, item: TaskItem, agent: str) -> str:
        """What `agent` is told at the first turn."""

    @abstractmethod
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """R(s_accessible, a): the value of a joint action. Pure."""

    def gold(self, item: TaskItem) -> dict[str, str]:
        """The reference joint action: it earns `reference_share` of the highest reachable reward, or more.

        Raises:
            ValueError: The item has no reference.
        """
        if len(item.reference) != len(self.roles):
            raise ValueError(
                f"task {item.id!r} has {len(item.reference)} reference texts, {len(self.roles)} are needed"
            )
        return dict(zip(self.possible_agents, item.reference, strict=True))

    def transition(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        """T: what each agent is told after a joint action that did not end the episode. Default: revise."""
        return dict.fromkeys(self.possible_agents, "Revise your previous answer. Give only the complete new version.")

    def gold_table(self) -> dict[tuple[str, str], str]:
        """Reference texts by (agent, first observation), for a policy that plays the gold solution."""
        table: dict[tuple[str, str], str] = {}
        for item in self.items:
            for agent, text in self.gold(item).items() if item.reference else ():
                table[agent, self.observe(item, agent)] = text
        return table

    def _begin(self, item: TaskItem) -> Mapping[str, str]:
        return {agent: self.observe(item, agent) for agent in self.possible_agents}

    def _advance(self, item: TaskItem, actions: Mapping[str, str]) -> Outcome:
        score = self.score(item, actions)
        solved = score.total >= self.max_return - 1e-9
        left = max(0, self.max_turns - self.turn - 1)
        skipped = left if solved else 0
        reward = reward_of_turn(self.pays, score.total, self._now.delivered, self.score_range[1], skipped)
        over = solved or not left
        return Outcome({} if over else self.transition(item, actions, score), score, reward, terminated=solved)
