"""The values of a running episode: transitions, outcomes, and the mutable state between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from ..registries import nearest
from ..types import Event, Message, Score, TaskItem

S = TypeVar("S")


class EpisodeError(ValueError):
    """An environment broke the contract; the message names the thing and its value."""


@dataclass(frozen=True, slots=True)
class Transition(Generic[S]):
    """The result of a joint action.

    Attributes:
        state: The next hidden state, an immutable value.
        reward: The team's reward of the turn; NaN if it could not be scored.
        score: The value of the latest delivered joint action; None if the turn is not scored, such as a draft.
        terminated: True if the task ends before its last turn, because it is solved or was stopped.
        rewards: The reward of each agent that was live; None: all receive the team's reward.
        events: Occurrences that are not observations or actions, such as tool calls.
        reset_history: Agents whose history is reset. It then starts with their next observation, which has to contain
            all information that they need.
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
    """The result of a reset or of one step.

    Attributes:
        observations: The next observation by agent. An agent that is missing or gets "" observes nothing.
        transition: The transition. `TextDecPOMDP.step` also terminates the last turn.
        asked: Agents that have to act next; None: all that observe something.
        agents: The live agents from now on; None: unchanged. At the start, None means all agents.
    """

    observations: Mapping[str, str | Message]
    transition: Transition[Any] = Transition(None)
    asked: Collection[str] | None = None
    agents: Sequence[str] | None = None


@dataclass(slots=True)
class Progress:
    """The mutable state of an episode."""

    item: TaskItem | None = None  # None before the first episode
    chance: int = 0  # seed of all chance in the episode
    agents: tuple[str, ...] = ()  # live agents
    left: frozenset[str] = frozenset()  # agents that have left
    turn: int = 0  # joint actions so far
    histories: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])  # messages by agent
    asked: frozenset[str] = frozenset()  # agents that have to act
    score: Score | None = None  # the last known score
    latest: Outcome = Outcome({})  # result of the last reset or step

    def copy(self) -> Progress:
        """Return an independent copy; immutable parts are shared."""
        return replace(self, histories={agent: list(messages) for agent, messages in self.histories.items()})

    def take(self, outcome: Outcome, possible: Sequence[str]) -> dict[str, str]:
        """Apply the result of a reset or step.

        Args:
            outcome: The result.
            possible: All agents that may exist.

        Returns:
            The observation of every agent that was or is now live; "" for agents that observe nothing.

        Raises:
            EpisodeError: An agent that is not live observes or has to act; an agent has to act or is reset without an
                observation; or the live agents include an unknown, repeated or former agent.
        """
        before, after = self.agents, outcome.transition
        present = before if outcome.agents is None else tuple(outcome.agents)
        if present != before:
            self._check_roster(present, possible)
        messages = {agent: _message(agent, content) for agent, content in outcome.observations.items() if content}
        asked = messages.keys() if outcome.asked is None else outcome.asked
        for what, names in (("given an observation", messages), ("asked to act", asked)):
            if missing := sorted(set(names) - set(present)):
                raise EpisodeError(f"{missing[0]!r} is {what} and is not live; live agents: {list(present)}")
        if unable := sorted(agent for agent in asked if agent not in messages and not self.histories.get(agent)):
            raise EpisodeError(f"{unable[0]!r} is asked to act and has no observation yet; give it one first")
        if without := sorted(after.reset_history - messages.keys()):
            raise EpisodeError(f"the history of {without[0]!r} is reset without an observation; give it one")
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
                    f"agent {agent!r} left this episode and is listed again; give a returning agent a new id"
                )
        if len(set(present)) < len(present):
            raise EpisodeError(f"the roster {list(present)} has an agent twice; list every agent once")


def _message(agent: str, content: str | Message) -> Message:
    if isinstance(content, Message):
        if content.role == "action":
            raise EpisodeError(f"the observation of {agent!r} is {content!r:.80}, an action; only agents add actions")
        return content
    if not isinstance(content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise EpisodeError(f"the observation of {agent!r} is {content!r:.60}; return a str or a Message")
    return Message("observation", content)


def agent_rewards(after: Transition[Any], there: Sequence[str], *, joint: bool) -> dict[str, float]:
    """Return the reward of each live agent: the identical float, unless rewards are individual.

    Raises:
        EpisodeError: Rewards are individual although the reward is declared joint, a live agent has no reward, or an
            agent that is not live has one.
    """
    if after.rewards is None:
        return dict.fromkeys(there, after.reward)
    if joint:
        raise EpisodeError(
            f"rewards are {dict(after.rewards)}, and the environment declares one joint reward; set "
            "joint_reward = False, or return `reward` without `rewards`"
        )
    if set(after.rewards) != set(there):
        raise EpisodeError(f"rewards are {dict(after.rewards)}; give one to each live agent of {list(there)}")
    return {agent: float(after.rewards[agent]) for agent in there}
