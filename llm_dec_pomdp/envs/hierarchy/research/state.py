"""The state of a question: what its team has done so far."""

from __future__ import annotations

from typing import NamedTuple

from ....types import Message, TaskItem
from .scoring import Work

MAIN = "agent_0"


class Invocation(NamedTuple):
    """A sub-agent that was asked once."""

    agent: str  # its id
    kind: str  # which specialist it is; "sub" where there are none
    subtask: str  # what it is to find out
    turns: int = 0  # texts that it wrote
    retrieved: tuple[int, ...] = ()  # indices of the passages that it was shown
    report: str | None = None  # what main sees; None while it works
    valid: bool = True  # whether its format is valid
    expert: float = 0.0  # how well it did its subtask, in [0, 1]; NaN where the judge gave no number

    @property
    def work(self) -> Work:
        """What it did, for scoring."""
        return Work(self.subtask, self.retrieved, self.report or "")


class State(NamedTuple):
    """The state of a question."""

    item: TaskItem
    seed: int  # decides the options of the grammar "choice"
    turn: int = 0  # joint actions played
    invocations: tuple[Invocation, ...] = ()  # all of them, in order
    known: int = 0  # how many invocations main has the reports of
    writing: bool = False  # main was told to write its answer (grammar "choice")
    told: tuple[tuple[str, Message], ...] = ()  # what agents are told next

    @property
    def working(self) -> tuple[Invocation, ...]:
        """Those that have not reported yet."""
        return tuple(one for one in self.invocations if one.report is None)


class Lead(NamedTuple):
    """What main decided."""

    what: str  # "ask", "write" (its answer, next), "answer", "stop" or "invalid"
    asks: tuple[tuple[str, str], ...] = ()  # kind and subtask of every sub-agent that is asked
    text: str = ""  # the answer, or why it is invalid


class Step(NamedTuple):
    """What a text of a sub-agent did."""

    told: Message | None = None  # what the sub-agent is told next; None where it is done
    retrieved: tuple[int, ...] = ()  # indices of the passages that it is shown
    report: str | None = None  # its report; None while it goes on
    valid: bool = True  # whether the text could be read
    call: tuple[str, str] = ("", "")  # the tool that it called, and the argument; ("", "") for none
