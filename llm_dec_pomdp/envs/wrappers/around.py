"""A task around another task: all that a wrapper of a task does not change."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ...types import Message, TaskItem, Tool
from ..base import TextDecPOMDP
from ..task import Task
from .inside import Wrapper


class Around(Protocol):
    """A state with that of the inner task in it."""

    @property
    def inner(self) -> Any:
        """That of the inner task."""
        ...


S = TypeVar("S", bound=Around)


class TaskAround(Wrapper, Task[S]):  # pyright: ignore[reportIncompatibleVariableOverride]  # score_range may follow max_turns
    """Base: derive, and say what begins, what is told and what follows otherwise.

    Args:
        env: The inner task. A protocol goes around this wrapper, not into it.
        name: Of the wrapper, behind that of the task.
    """

    env: Any  # a Task, or a wrapper of one

    def __init__(self, env: Task[Any], name: str) -> None:
        self._take_over(env, name)
        self.hears_others = env.hears_others
        self.hierarchical = env.hierarchical
        self.vocabulary = env.vocabulary
        TextDecPOMDP.__init__(self, len(env.possible_agents), env.max_turns, env.render_mode)  # has tasks already

    @abstractmethod
    def initial_state(self, item: TaskItem, seed: int) -> S:
        """One with that of the task in it."""

    def told(self, state: S) -> Mapping[str, str | Message]:
        """As the task has it."""
        return self.env.told(state.inner)

    def asks(self, state: S) -> Collection[str] | None:
        """As the task has it."""
        return self.env.asks(state.inner)

    def roster(self, state: S) -> Sequence[str]:
        """As the task has it."""
        return self.env.roster(state.inner)

    def describe(self, state: S) -> Mapping[str, Any]:
        """As the task has it."""
        return self.env.describe(state.inner)

    # --- whatever the state ------------------------------------------------------------------------------------------

    @property
    def max_turns(self) -> int:
        """That of the task."""
        return self.env.max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.env.max_turns = value

    def fork(self) -> TextDecPOMDP:
        """An independent copy at the same decision point."""
        return TextDecPOMDP.fork(self._around(self.env.fork()))

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """As the task has it."""
        return self.env.tools(agent)

    def choices(self, agent: str, history: Sequence[Message]) -> Sequence[str]:
        """Those of the task."""
        return self.env.choices(agent, history)

    def gold(self, item: TaskItem) -> dict[str, str]:
        """As the task has it."""
        return self.env.gold(item)

    def gold_table(self) -> Mapping[tuple[str, str], str]:
        """That of the task."""
        return self.env.gold_table()

    @property
    def scripts(self) -> Mapping[str, Callable[[str, Sequence[Message]], str]]:
        """Those of the task."""
        return self.env.scripts
