"""What a question's team has done so far."""

from __future__ import annotations

from typing import NamedTuple

from ...types import Message, TaskItem
from .scoring import Work

MAIN = "agent_0"


class Invocation(NamedTuple):
    """A sub-agent that was asked once.

    Attributes:
        agent: Its id.
        kind: Which specialist it is; "sub" where there are none.
        subtask: What it is to find out.
        turns: Texts that it wrote.
        retrieved: Places of the passages that it was shown.
        report: What main sees; None while it works.
        valid: Its format is.
        expert: How well it did its subtask; NaN where nobody could judge that.
    """

    agent: str
    kind: str
    subtask: str
    turns: int = 0
    retrieved: tuple[int, ...] = ()
    report: str | None = None
    valid: bool = True
    expert: float = 0.0

    @property
    def work(self) -> Work:
        """What it did, for scoring."""
        return Work(self.subtask, self.retrieved, self.report or "")


class State(NamedTuple):
    """The state of a question.

    Attributes:
        item: The task.
        seed: Of the order of options.
        turn: Joint actions played.
        invocations: Everybody who was asked, in order.
        known: How many of these main has the reports of.
        writing: Main was told to write its answer (grammar "choice").
        told: Who is told what.
    """

    item: TaskItem
    seed: int
    turn: int = 0
    invocations: tuple[Invocation, ...] = ()
    known: int = 0
    writing: bool = False
    told: tuple[tuple[str, Message], ...] = ()

    @property
    def working(self) -> tuple[Invocation, ...]:
        """Those who have not reported yet."""
        return tuple(one for one in self.invocations if one.report is None)


class Lead(NamedTuple):
    """What main decided.

    Attributes:
        what: "ask", "write" (its answer, next), "answer", "stop" or "invalid".
        asks: Kind and subtask of everybody who is asked.
        text: The answer, or why it is invalid.
    """

    what: str
    asks: tuple[tuple[str, str], ...] = ()
    text: str = ""


class Step(NamedTuple):
    """What a text of a sub-agent did.

    Attributes:
        told: What the sub-agent is told next; None where it is done.
        retrieved: Places of the passages that it is shown.
        report: What it reports; None while it goes on.
        valid: The text could be read.
        call: The tool that it called, with what; ("", "") for none.
    """

    told: Message | None = None
    retrieved: tuple[int, ...] = ()
    report: str | None = None
    valid: bool = True
    call: tuple[str, str] = ("", "")
