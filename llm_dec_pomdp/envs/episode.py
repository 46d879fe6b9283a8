"""An episode: the outcome of each advance, and all that changes while it is played."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from ..registries import nearest
from ..types import Event, Message, Score, TaskItem

S = TypeVar("S")


class EpisodeError(ValueError):
    """An environment produced what no episode can hold; the message names the thing and its value."""


@dataclass(frozen=True, slots=True)
class Transition(Generic[S]):
    """What follows a joint action.

    Attributes:
        state: The hidden state from now on, an immutable value.
        reward: What the turn pays the team; NaN where it could not be scored.
        score: The value of what the team has delivered so far; None where it is not scored (a draft, a beginning).
        terminated: The task is over before its turns are: it is solved, or was stopped.
        rewards: What the turn pays each agent that was there; None: the team's reward.
        events: What happened beside texts.
        anew: Agents whose history begins anew with what they are told next, which has to repeat all that they need.
    """

    state: S
    reward: float = 0.0
    score: Score | None = None
    terminated: bool = False
    rewards: Mapping[str, float] | None = None
    events: tuple[Event, ...] = ()
    reset_history: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the beginning of an episode, or one advance of it, produced.

    Attributes:
        told: What agents are told next; those that are missing or get empty text are told nothing.
        transition: What followed; the last turn terminates too, which `TextDecPOMDP.step` adds.
        asked: Agents that have to answer; None: all that are told something.
        agents: The live agents from now on; None: the same as before, at the beginning all.
    """

    observations: Mapping[str, str | Message]
    transition: Transition[Any] = Transition(None)
    asked: Collection[str] | None = None
    agents: Sequence[str] | None = None


@dataclass(slots=True)
class Progress:
    """Everything that changes during an episode."""

    item: TaskItem | None = None  # None before the first episode
    chance: int = 0  # seed of all chance in the episode
    agents: tuple[str, ...] = ()  # those that are live
    left: frozenset[str] = frozenset()  # agents that have left
    turn: int = 0  # joint actions played
    histories: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])  # messages by agent
    asked: frozenset[str] = frozenset()  # agents that owe an answer
    score: Score | None = None  # the last known one
    latest: Outcome = Outcome({})  # what the last advance produced; frozen

    def copy(self) -> Progress:
        """An independent copy; what never changes is shared."""
        return replace(self, histories={agent: list(messages) for agent, messages in self.histories.items()})

    def take(self, outcome: Outcome, possible: Sequence[str]) -> dict[str, str]:
        """Go on with what an advance produced; `possible` are all agents that there may be.

        Returns:
            What is told, by agent, for every agent that was there or is there from now on.

        Raises:
            EpisodeError: An agent is told something, asked or live that must not be.
        """
        before, after = self.agents, outcome.transition
        present = before if outcome.agents is None else tuple(outcome.agents)
        if present != before:
            self._check_roster(present, possible)
        messages = {agent: _message(agent, content) for agent, content in outcome.observations.items() if content}
        asked = messages.keys() if outcome.asked is None else outcome.asked
        for what, names in (("told something", messages), ("asked", asked)):
            if missing := sorted(set(names) - set(present)):
                raise EpisodeError(f"{missing[0]!r} is {what} and is not there; there are {list(present)}")
        if unable := sorted(agent for agent in asked if agent not in messages and not self.histories.get(agent)):
            raise EpisodeError(f"{unable[0]!r} is asked and was never told anything; tell it what to do first")
        if untold := sorted(after.reset_history - messages.keys()):
            raise EpisodeError(f"the history of {untold[0]!r} begins anew, and it is told nothing; say what it knows")
        for agent, message in messages.items():
            self.histories[agent] = [*(() if agent in after.reset_history else self.histories[agent]), message]
        self.left |= set(before) - set(present)
        self.agents = () if after.terminated else present
        self.asked = frozenset() if after.terminated else frozenset(asked)
        self.score = after.score or self.score
        self.latest = outcome
        return dict.fromkeys([*before, *present], "") | {agent: message.text for agent, message in messages.items()}

    def _check_roster(self, present: Sequence[str], possible: Sequence[str]) -> None:
        for agent in present:
            if agent not in possible:
                raise EpisodeError(f"the roster has {agent!r}, which is no possible agent; {nearest(agent, possible)}")
            if agent in self.left:
                raise EpisodeError(
                    f"the roster revives {agent!r}, which has left; an agent that returns needs a new id"
                )
        if len(set(present)) < len(present):
            raise EpisodeError(f"the roster {list(present)} has an agent twice; every agent is there once")


def _message(agent: str, content: str | Message) -> Message:
    if isinstance(content, Message):
        if content.role == "action":
            raise EpisodeError(f"{agent!r} is given the message {content!r:.80}; only an agent itself says something")
        return content
    if not isinstance(content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise EpisodeError(f"{agent!r} is told {content!r:.60}; what agents are told is text or a Message")
    return Message("observation", content)


def agent_rewards(after: Transition[Any], there: Sequence[str], *, joint: bool) -> dict[str, float]:
    """What a transition pays each agent that was there: the identical float, unless agents are paid individually.

    Raises:
        EpisodeError: An agent that is not there is paid, a live one is not, or the reward is declared joint.
    """
    if after.rewards is None:
        return dict.fromkeys(there, after.reward)
    if joint:
        raise EpisodeError(
            f"agents are paid {dict(after.rewards)}, and the environment declares one joint reward; set "
            "joint_reward = False, or pay the team alone"
        )
    if set(after.rewards) != set(there):
        raise EpisodeError(f"agents are paid {dict(after.rewards)}, and there are {list(there)}; pay each of them")
    return {agent: float(after.rewards[agent]) for agent in there}
