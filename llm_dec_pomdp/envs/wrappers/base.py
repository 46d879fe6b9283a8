"""Wrappers of text environments: whatever a wrapper does not change comes from the environment inside."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...types import Group, Message, TaskItem, Tool
from ..base import Script, TextDecPOMDP
from ..facts import Facts
from ..streams import TaskStream
from ..task import Task

if TYPE_CHECKING:
    from typing import Self


class Wrapper(TextDecPOMDP):
    """Base of communication protocols, and of tasks that wrap another task."""

    env: TextDecPOMDP

    def _wrap(self, env: TextDecPOMDP, name: str) -> None:
        """Take an environment inside; the name of the wrapper follows its own."""
        self.env, self.spec = env, env.spec
        self.metadata = {**env.metadata, "name": f"{env.metadata['name']}/{name}"}

    def _rewrap(self, env: TextDecPOMDP) -> Self:
        """The same wrapper around another environment."""
        twin = copy.copy(self)
        twin.env = env
        return twin

    @property
    def facts(self) -> Facts:
        """Those of the environment inside; what an optimal team earns here is not known."""
        return replace(self.env.facts, name=self.metadata["name"], optimum=None)

    @property
    def stream(self) -> TaskStream | None:
        """That of the environment inside."""
        return self.env.stream

    @property
    def items(self) -> tuple[TaskItem, ...]:
        """Those of the environment inside."""
        return self.env.items

    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """A copy that plays other tasks, as they are given."""
        return self._rewrap(self.env.with_items(items))

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Those of the environment inside."""
        return self.env.choices(agent, history)

    def script(self, name: str) -> Script:
        """That of the environment inside."""
        return self.env.script(name)

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Those of the environment inside."""
        return self.env.tools(agent)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """As the environment inside does."""
        return self.env.measure(groups)

    def fork(self) -> TextDecPOMDP:
        """An independent copy at the same decision point."""
        return TextDecPOMDP.fork(self._rewrap(self.env.fork()))


class HasInner(Protocol):
    """The state of a wrapper, which holds that of the inner task."""

    @property
    def inner(self) -> Any:
        """That of the inner task."""
        ...


S = TypeVar("S", bound=HasInner)


class TaskWrapper(Wrapper, Task[S]):
    """A task around another one: derive, and implement `initial_state`, `transition` and whatever else is different.

    Args:
        env: The inner task. A protocol goes around this wrapper, not into it.
        name: Of the wrapper.
    """

    env: Any  # a Task, or a wrapper of one

    def __init__(self, env: Task[Any], name: str) -> None:
        self._wrap(env, name)
        TextDecPOMDP.__init__(self, len(env.possible_agents), self.max_turns, env.render_mode)  # has tasks already

    def observations(self, state: S) -> Mapping[str, str | Message]:
        """As in the inner task."""
        return self.env.observations(state.inner)

    def asks(self, state: S) -> Collection[str] | None:
        """As in the inner task."""
        return self.env.asks(state.inner)

    def roster(self, state: S) -> Sequence[str]:
        """As in the inner task."""
        return self.env.roster(state.inner)

    def describe(self, state: S) -> Mapping[str, Any]:
        """As in the inner task."""
        return self.env.describe(state.inner)

    @property
    def max_turns(self) -> int:
        """That of the inner task."""
        return self.env.max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.env.max_turns = value
