"""A task of scored texts: what each agent is told, and what a joint action is worth."""

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
    """The state of a `TextTask`: what was delivered last, and what is told next."""

    item: TaskItem
    observations: tuple[tuple[str, str], ...]  # agents and what they are told
    delivered: float = 0.0  # the last known score; 0 before the first
    turn: int = 0  # joint actions played


class TextOptions(TaskOptions, total=False):
    """The options that every task of scored texts takes beside `tasks`; see `TextTask`."""

    turn_reward: TurnReward


class TextTask(Task[TextState]):
    """Say what is `declared` and where the rows come from, implement `observe` and `score`.

    A joint action that earns `facts.max_return` ends the episode. The references of the rows are the script "gold".

    Args:
        pays: What several turns pay, "final", "shifted" or "each"; see `envs.turn_rewards`.
        tasks, common: See `Task`.
    """

    def __init__(
        self, tasks: Tasks = "sample", *, turn_reward: TurnReward = "final", **common: Unpack[TaskOptions]
    ) -> None:
        check_rule(turn_reward)
        self.turn_reward: TurnReward = turn_reward
        super().__init__(tasks, **common)

    @property
    def facts(self) -> Facts:
        """What is declared, and the rewards of a turn as `turn_reward` has them."""
        known = self.declared
        paid = range_of_rewards(self.turn_reward, known.score_range, self.max_turns)
        return replace(known, turn_range=paid, scripts=("gold", *known.scripts))

    @abstractmethod
    def observe(self, item: TaskItem, agent: str) -> str:
        """What `agent` is told at the first turn."""

    @abstractmethod
    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        """R(s_accessible, a): the value of a joint action. Pure."""

    def unusable(self, item: TaskItem) -> str:
        """See `Task`; a reference with too few or too many texts too."""
        if item.reference and len(item.reference) != len(self.possible_agents):
            count = len(self.possible_agents)
            return f"field 'reference': has {len(item.reference)} texts; give {count}, or leave it out"
        return self.problem(item)

    def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
        """What each agent is told after a joint action that did not end the episode. Default: revise."""
        return dict.fromkeys(self.possible_agents, "Revise your previous answer. Give only the complete new version.")

    def script(self, name: str) -> Script:
        """The team "gold" says the reference of the task, which it recognises by what it was told first."""
        if name != "gold":
            return super().script(name)
        known = {
            (agent, self.observe(item, agent)): text
            for item in self.items
            for agent, text in zip(self.possible_agents, item.reference, strict=False)  # a row may have none
        }
        return partial(_recalled, known)

    def initial_state(self, item: TaskItem, seed: int) -> TextState:
        """Everybody is told what `observe` says."""
        return TextState(item, tuple((agent, self.observe(item, agent)) for agent in self.possible_agents))

    def observations(self, state: TextState) -> Mapping[str, str]:
        """What `observe` or `respond` said."""
        return dict(state.observations)

    def describe(self, state: TextState) -> Mapping[str, Any]:
        """What was delivered last."""
        return {"delivered": state.delivered}

    def transition(self, state: TextState, actions: Mapping[str, str], seed: int) -> Transition[TextState]:
        """Score what was said, pay it as `turn_reward` says, and let agents revise it if there are turns left."""
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
