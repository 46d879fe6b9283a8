"""A task around another task: all that a wrapper of a task does not change."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ...types import Message, Scale, TaskItem, Tool
from ..base import TextDecPOMDP
from ..task import Task


class Around(Protocol):
    """A state with that of the inner task in it."""

    @property
    def inner(self) -> Any:
        """That of the inner task."""
        ...


S = TypeVar("S", bound=Around)


class TaskAround(Task[S]):
    """Base: derive, and say what begins, what is told and what follows otherwise.

    Args:
        env: The inner task. A protocol goes around this wrapper, not into it.
        name: Of the wrapper, behind that of the task.
    """

    def __init__(self, env: Task[Any], name: str) -> None:
        self.env = env
        self.roles = env.roles
        self.components = env.components
        self.diagnostics = env.diagnostics
        self.hidden_fields = env.hidden_fields
        self.reference_share = env.reference_share
        self.silence_is_lowest = env.silence_is_lowest
        self.joint_reward = env.joint_reward
        self.judges_code = env.judges_code
        self.hears_others = env.hears_others
        self.hierarchical = env.hierarchical
        self.vocabulary = env.vocabulary
        self.metadata = {**env.metadata, "name": f"{env.metadata['name']}/{name}"}
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
    def reward_range(self) -> tuple[float, float]:
        """That of the task."""
        return self.env.reward_range

    @property
    def score_range(self) -> tuple[float, float]:  # type: ignore[override]  # may follow max_turns
        """That of the task."""
        return self.env.score_range

    @property
    def max_return(self) -> float:
        """That of the task."""
        return self.env.max_return

    @property
    def score_scale(self) -> Scale:
        """That of the task."""
        return self.env.score_scale

    @property
    def max_turns(self) -> int:
        """That of the task."""
        return self.env.max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.env.max_turns = value

    @property
    def items(self) -> tuple[TaskItem, ...]:
        """The task set."""
        return self.env.items

    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """A copy that plays other tasks, as they are given."""
        return self._around(self.env.with_items(items))

    def fork(self) -> TextDecPOMDP:
        """An independent copy at the same decision point."""
        return TextDecPOMDP.fork(self._around(self.env.fork()))

    def _around(self, env: Any) -> TaskAround[S]:
        twin = copy.copy(self)
        twin.env = env
        return twin

    def shown(self, text: str) -> str:
        """As the task does."""
        return self.env.shown(text)

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """As the task has it."""
        return self.env.tools(agent)

    def menu(self, agent: str) -> Sequence[str]:
        """That of the task."""
        return self.env.menu(agent)

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

    def split_joint_text(self, text: str) -> tuple[str, ...]:
        """As the task does."""
        return self.env.split_joint_text(text)

    def join_texts(self, texts: Sequence[str]) -> str:
        """As the task does."""
        return self.env.join_texts(texts)
