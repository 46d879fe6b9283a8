"""The base class of tasks with scored texts: one observation per agent and a score of the joint action."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Unpack

from ..registries import UnknownNameError
from ..types import Message, Score, TaskItem
from .base import Script
from .episode import EpisodeError
from .facts import Facts
from .task import Task, TaskOptions, Transition
from .tasks import Tasks
from .turn_rewards import TurnReward, check_rule, range_of_rewards, reward_of_turn


class TextState(NamedTuple):
    """The state of a `TextTask`: the score of the last delivered joint action and the next observations."""

    item: TaskItem
    observations: tuple[tuple[str, str], ...]  # by agent
    delivered: float = 0.0  # last known score; 0 before the first
    turn: int = 0  # joint actions so far


class TextOptions(TaskOptions, total=False):
    """The options that every task of scored texts takes besides `tasks`; see `TextTask`."""

    turn_reward: TurnReward


class TextTask(Task[TextState]):
    """Base of tasks of scored texts: set `declared` and `source`; implement `observe` and `score`.

    A joint action with the score `facts.max_return` ends the episode. The script "gold" plays the references.

    Args:
        tasks, common: See `Task`.
        turn_reward: How scores become the rewards of several turns: "final", "shifted" or "each"; see
            `envs.turn_rewards`.
    """

    def __init__(
        self, tasks: Tasks = "sample", *, turn_reward: TurnReward = "final", **common: Unpack[TaskOptions]
    ) -> None:
        check_rule(turn_reward)
        self.turn_reward: TurnReward = turn_reward
        super().__init__(tasks, **common)

    @property
    def facts(self) -> Facts:
        """Return the declared properties, with the range of turn rewards under `turn_reward`."""
        known = self.declared
        paid = range_of_rewards(self.turn_reward, known.score_range, self.max_turns)
        return replace(known, turn_range=paid, scripts=("gold", *known.scripts))

    @abstractmethod
    def observe(self, item: TaskItem, agent: str) -> str:
        """Return the first observation of `agent`."""

    @abstractmethod
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """Return the score of a joint action; a pure function."""

    def unusable(self, item: TaskItem) -> str:
        """Return why a row can never be scored, such as a reference without one text per agent; see `Task`."""
        if item.reference and len(item.reference) != len(self.possible_agents):
            count = len(self.possible_agents)
            return f"field 'reference': has {len(item.reference)} texts; give {count}, or leave it out"
        return self.problem(item)

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        """Return the observations after a joint action that did not end the episode. Default: a request to revise."""
        return dict.fromkeys(self.possible_agents, "Revise your previous answer. Give only the complete new version.")

    def script(self, name: str) -> Script:
        """Return a scripted team. "gold" plays the reference of the row that has the same first observation."""
        if name != "gold":
            return super().script(name)
        known = {
            (agent, self.observe(item, agent)): text
            for item in self.items
            for agent, text in zip(self.possible_agents, item.reference, strict=False)  # a row may have none
        }
        return partial(_recalled, known)

    def initial_state(self, item: TaskItem, seed: int) -> TextState:
        """Return the state with the observations of `observe`."""
        return TextState(item, tuple((agent, self.observe(item, agent)) for agent in self.possible_agents))

    def observations(self, state: TextState) -> Mapping[str, str]:
        """Return the observations from `observe` (first turn) or `respond` (later turns)."""
        return dict(state.observations)

    def describe(self, state: TextState) -> Mapping[str, Any]:
        """Return the last known score."""
        return {"delivered": state.delivered}

    def transition(self, state: TextState, actions: Mapping[str, str], seed: int) -> Transition[TextState]:
        """Score the joint action, apply `turn_reward`, and request a revision if turns are left."""
        score, known = self.score(state.item, actions), self.facts
        if not isinstance(score, Score):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = type(score).__name__
            raise EpisodeError(f"score() of {known.name} returned a {kind} ({score!r:.60}); return a Score")
        solved = score.total >= known.max_return - 1e-9
        left = max(0, self.max_turns - state.turn - 1)
        skipped = left if solved else 0
        reward = reward_of_turn(self.turn_reward, score.total, state.delivered, known.score_range[1], skipped)
        told: Mapping[str, str] = {} if solved or not left else self.respond(state.item, actions, score)
        delivered = score.total if score.scorable else state.delivered
        following = TextState(state.item, tuple(told.items()), delivered, state.turn + 1)
        return Transition(following, reward, score, terminated=solved)


def _recalled(known: Mapping[tuple[str, str], str], agent: str, history: Sequence[Message]) -> str:
    try:
        return known[agent, history[0].text]
    except KeyError:
        raise UnknownNameError(
            f'no reference text for {agent!r} and the observation {history[0].text[:60]!r}...; the team "gold" knows '
            "only tasks that come with references"
        ) from None
