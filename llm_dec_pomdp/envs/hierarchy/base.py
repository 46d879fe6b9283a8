"""Base of hierarchies: a main agent, and the invocations of its sub-agents.

Main calls sub-agents. Each call creates an agent, which joins with an empty history, does its subtask and reports. It
stays until the end of the episode, because its reward depends on the answer of main. Rewards are individual, come at
the end, and are those of M-GRPO (arXiv:2511.13288, section 3):

    R_M = 0.1 format + 0.9 correct                   for main and the team; 0 if the format of main is invalid
    R_S = 0.1 format + 0.4 correct + 0.5 expert      for an invocation; 0 if its own format is invalid
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from ...types import Event, Score
from ..task import Task, Transition

LEADER = "agent_0"  # the main agent
FORMAT, CORRECT = 0.1, 0.9  # R_M
SUB_FORMAT, SUB_CORRECT, SUB_EXPERT = 0.1, 0.4, 0.5  # R_S


class Called(Protocol):
    """An invocation: one call of a sub-agent."""

    @property
    def agent(self) -> str:
        """The id of the agent."""
        ...

    @property
    def usable(self) -> bool:
        """True if it has reported in a valid format."""
        ...

    @property
    def expert(self) -> float:
        """Quality of its report, in [0, 1]."""
        ...


class Calling(Protocol):
    """The state of a hierarchy."""

    @property
    def invocations(self) -> Sequence[Called]:
        """All invocations so far, in order."""
        ...


H = TypeVar("H", bound=Calling)


class Hierarchy(Task[H]):
    """A task in which main calls sub-agents; the module docstring defines the rewards and when agents join."""

    def roster(self, state: H) -> Sequence[str]:
        """Return the ids of main and of all invocations so far."""
        return [LEADER, *(invocation.agent for invocation in state.invocations)]

    def go_on(self, state: H, events: Sequence[Event], reset_history: Sequence[str] = ()) -> Transition[H]:
        """Continue the episode with reward 0; agents that have just joined receive no reward."""
        joined = {event.agent for event in events if event.kind == "spawn"}
        rewards = {agent: 0.0 for agent in self.roster(state) if agent not in joined}
        return Transition(state, 0.0, rewards=rewards, events=tuple(events), reset_history=frozenset(reset_history))

    def end(self, state: H, score: Score, events: Sequence[Event]) -> Transition[H]:
        """End the episode with R_M for main and R_S for each invocation."""
        correct = score.components["correct"] > 0
        rewards = {LEADER: score.total}
        for invocation in state.invocations:
            rewards[invocation.agent] = reward_of_sub(
                valid=invocation.usable, correct=correct, expert=invocation.expert
            )
        return Transition(state, score.total, score, terminated=True, rewards=rewards, events=tuple(events))


def spawned(agent: str, role: str, subtask: str) -> Event:
    """Return the event of a call of a sub-agent by main."""
    return Event("spawn", agent, {"role": role, "by": LEADER, "subtask": subtask})


def parts_of_main(*, valid: bool, correct: bool) -> dict[str, float]:
    """Return the parts of R_M by name of the component."""
    return {"format": FORMAT * valid, "correct": CORRECT * (valid and correct)}


def reward_of_sub(*, valid: bool, correct: bool, expert: float) -> float:
    """Return R_S, see the module."""
    return SUB_FORMAT + SUB_CORRECT * correct + SUB_EXPERT * expert if valid else 0.0
