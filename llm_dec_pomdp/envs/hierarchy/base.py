"""What hierarchies share: a main agent, and the invocations of its sub-agents.

Main calls sub-agents. Each call is an agent of its own, which joins with a fresh history, does its subtask, reports,
and stays until the end, because its reward depends on main's answer. Rewards are individual, come at the end, and are
those of M-GRPO (arXiv:2511.13288, section 3):

    R_M = 0.1 format + 0.9 correct                   of main and the team; 0 where main's format is invalid
    R_S = 0.1 format + 0.4 correct + 0.5 expert      of an invocation; 0 where its own format is invalid
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from ...types import Event, Score
from ..task import Task, Transition

MAIN = "agent_0"
FORMAT, CORRECT = 0.1, 0.9  # R_M
SUB_FORMAT, SUB_CORRECT, SUB_EXPERT = 0.1, 0.4, 0.5  # R_S


class Called(Protocol):
    """An invocation: a sub-agent that was called once."""

    @property
    def agent(self) -> str:
        """Its id."""
        ...

    @property
    def usable(self) -> bool:
        """It has reported, in a valid format."""
        ...

    @property
    def expert(self) -> float:
        """How well it did its subtask, in [0, 1]."""
        ...


class Calling(Protocol):
    """The state of a hierarchy."""

    @property
    def invocations(self) -> Sequence[Called]:
        """All of them so far, in order."""
        ...


H = TypeVar("H", bound=Calling)


class Hierarchy(Task[H]):
    """A task in which main calls sub-agents; the module says who is there and what is paid."""

    def roster(self, state: H) -> Sequence[str]:
        """Main, and all invocations so far."""
        return [MAIN, *(invocation.agent for invocation in state.invocations)]

    def go_on(self, state: H, events: Sequence[Event], reset_history: Sequence[str] = ()) -> Transition[H]:
        """The episode goes on and pays nothing yet; who has just joined was not there to be paid."""
        joined = {event.agent for event in events if event.kind == "spawn"}
        rewards = {agent: 0.0 for agent in self.roster(state) if agent not in joined}
        return Transition(state, 0.0, rewards=rewards, events=tuple(events), reset_history=frozenset(reset_history))

    def end(self, state: H, score: Score, events: Sequence[Event]) -> Transition[H]:
        """The episode ends and pays all agents, R_S by the `correct` of main."""
        correct = score.components["correct"] > 0
        rewards = {MAIN: score.total}
        for invocation in state.invocations:
            rewards[invocation.agent] = reward_of_sub(
                valid=invocation.usable, correct=correct, expert=invocation.expert
            )
        return Transition(state, score.total, score, terminated=True, rewards=rewards, events=tuple(events))


def spawned(agent: str, role: str, subtask: str) -> Event:
    """The event that main has called a sub-agent."""
    return Event("spawn", agent, {"role": role, "by": MAIN, "subtask": subtask})


def parts_of_main(*, valid: bool, correct: bool) -> dict[str, float]:
    """The parts of R_M, by the names of components."""
    return {"format": FORMAT * valid, "correct": CORRECT * (valid and correct)}


def reward_of_sub(*, valid: bool, correct: bool, expert: float) -> float:
    """R_S."""
    return SUB_FORMAT + SUB_CORRECT * correct + SUB_EXPERT * expert if valid else 0.0
