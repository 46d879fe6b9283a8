"""A task of scored texts: what each agent is told, and what a joint action is worth."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from ..types import Score, TaskItem
from .task import Task, Transition
from .tasks import Tasks
from .turn_rewards import Pays, check_rule, range_of_rewards, reward_of_turn


class TextState(NamedTuple):
    """The state of a `TextTask`: what was delivered last, and what is told next."""

    item: TaskItem
    told: tuple[tuple[str, str], ...]  # agents and what they are told
    delivered: float = 0.0  # the last known score; 0 before the first
    turn: int = 0  # joint actions played


class TextTask(Task[TextState]):
    """Declare the class attributes, implement `observe` and `score`.

    Args:
        tasks, split, fields, max_turns, render_mode: See `Task`.
        pays: What several turns pay, "final", "shifted" or "each"; see `envs.turn_rewards`.
    """

    max_return: ClassVar[float]  # type: ignore[assignment]  # a joint action that earns it ends the episode

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        split: str | None = None,
        fields: Mapping[str, str] | None = None,
        max_turns: int = 1,
        pays: Pays = "final",
        render_mode: str | None = None,
    ) -> None:
        check_rule(pays)
        self.pays: Pays = pays
        super().__init__(tasks, split=split, fields=fields, max_turns=max_turns, render_mode=render_mode)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Lowest and highest joint reward of one turn, as `pays` has it."""
        return range_of_rewards(self.pays, self.score_range, self.max_turns)

    @abstractmethod
    def observe(self, item: TaskItem, agent: str) -> str:
        """What `agent` is told at the first turn."""

    @abstractmethod
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """R(s_accessible, a): the value of a joint action. Pure."""

    def gold(self, item: TaskItem) -> dict[str, str]:
        """The reference joint action.

        Raises:
            ValueError: The item has no reference.
        """
        if len(item.reference) != len(self.roles):
            raise ValueError(
                f"task {item.id!r} has {len(item.reference)} reference texts, {len(self.roles)} are needed"
            )
        return dict(zip(self.possible_agents, item.reference, strict=True))

    def unusable(self, item: TaskItem) -> str:
        """See `Task`; a reference with too few or too many texts too."""
        if item.reference and len(item.reference) != len(self.roles):
            return f"field 'reference': has {len(item.reference)} texts; give {len(self.roles)}, or leave it out"
        return self.problem(item)

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        """What each agent is told after a joint action that did not end the episode. Default: revise."""
        return dict.fromkeys(self.possible_agents, "Revise your previous answer. Give only the complete new version.")

    def gold_table(self) -> dict[tuple[str, str], str]:
        """Reference texts by (agent, first observation), for a policy that plays the gold solution."""
        table: dict[tuple[str, str], str] = {}
        for item in self.items:
            for agent, text in self.gold(item).items() if item.reference else ():
                table[agent, self.observe(item, agent)] = text
        return table

    def initial_state(self, item: TaskItem, seed: int) -> TextState:
        """Everybody is told what `observe` says."""
        return TextState(item, tuple((agent, self.observe(item, agent)) for agent in self.possible_agents))

    def told(self, state: TextState) -> Mapping[str, str]:
        """What `observe` or `respond` said."""
        return dict(state.told)

    def describe(self, state: TextState) -> Mapping[str, Any]:
        """What was delivered last."""
        return {"delivered": state.delivered}

    def transition(self, state: TextState, actions: Mapping[str, str], seed: int) -> Transition[TextState]:
        """Score what was said, pay it as `pays` says, and let agents revise it if there are turns left."""
        score = self.score(state.item, actions)
        solved = score.total >= self.max_return - 1e-9
        left = max(0, self.max_turns - state.turn - 1)
        skipped = left if solved else 0
        reward = reward_of_turn(self.pays, score.total, state.delivered, self.score_range[1], skipped)
        told: Mapping[str, str] = {} if solved or not left else self.respond(state.item, actions, score)
        delivered = score.total if score.scorable else state.delivered
        following = TextState(state.item, tuple(told.items()), delivered, state.turn + 1)
        return Transition(following, reward, score, terminated=solved)
