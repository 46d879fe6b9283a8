"""Base classes of wrappers, which forward all calls that they do not change to the inner environment."""

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
    """Base of communication protocols and of tasks that wrap another task.

    Attributes:
        env: The inner environment.
    """

    env: TextDecPOMDP

    def _wrap(self, env: TextDecPOMDP, name: str) -> None:
        """Set the inner environment and name this wrapper `<inner>/<name>`."""
        self.env, self.spec = env, env.spec
        self.metadata = {**env.metadata, "name": f"{env.metadata['name']}/{name}"}

    def _rewrap(self, env: TextDecPOMDP) -> Self:
        """Return the same wrapper around another environment."""
        twin = copy.copy(self)
        twin.env = env
        return twin

    @property
    def facts(self) -> Facts:
        """Return the properties of the inner environment, without its optimum, which may differ here."""
        return replace(self.env.facts, name=self.metadata["name"], optimum=None)

    @property
    def stream(self) -> TaskStream | None:
        """Return the stream of the inner environment."""
        return self.env.stream

    @property
    def items(self) -> tuple[TaskItem, ...]:
        """Return the task set of the inner environment."""
        return self.env.items

    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """Return a copy with other tasks; see `TextDecPOMDP.with_items`."""
        return self._rewrap(self.env.with_items(items))

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the choices of the inner environment."""
        return self.env.choices(agent, history)

    def script(self, name: str) -> Script:
        """Return a scripted team of the inner environment."""
        return self.env.script(name)

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return the tools of the inner environment."""
        return self.env.tools(agent)

    def can_call(self, agent: str) -> bool:
        """Return whether an agent can call tools, here or in the inner environment."""
        return super().can_call(agent) or self.env.can_call(agent)

    def note_thoughts(self, thoughts: Mapping[str, str]) -> None:
        """Pass the thoughts on to the inner environment."""
        self.env.note_thoughts(thoughts)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the statistics of the inner environment."""
        return self.env.measure(groups)

    def fork(self) -> TextDecPOMDP:
        """Return an independent copy at the same decision point."""
        return TextDecPOMDP.fork(self._rewrap(self.env.fork()))


class HasInner(Protocol):
    """The state of a wrapper; it contains the state of the inner task."""

    @property
    def inner(self) -> Any:
        """Return the state of the inner task."""
        ...


S = TypeVar("S", bound=HasInner)


class TaskWrapper(Wrapper, Task[S]):
    """A task that wraps another one: implement `initial_state`, `transition`, and override what else differs.

    Args:
        env: The inner task. Protocols wrap this wrapper, not the inner task.
        name: Name of the wrapper, which is appended to the name of the inner task.
    """

    env: Any  # a Task, or a TaskWrapper

    def __init__(self, env: Task[Any], name: str) -> None:
        self._wrap(env, name)
        TextDecPOMDP.__init__(self, len(env.possible_agents), self.max_turns, env.render_mode)  # Task's loads tasks

    def observations(self, state: S) -> Mapping[str, str | Message]:
        """Return the observations of the inner task."""
        return self.env.observations(state.inner)

    def asks(self, state: S) -> Collection[str] | None:
        """Return the agents that have to act in the inner task."""
        return self.env.asks(state.inner)

    def roster(self, state: S) -> Sequence[str]:
        """Return the live agents of the inner task."""
        return self.env.roster(state.inner)

    def describe(self, state: S) -> Mapping[str, Any]:
        """Return the hidden part of the inner state."""
        return self.env.describe(state.inner)

    @property
    def max_turns(self) -> int:
        """Return the horizon of the inner task."""
        return self.env.max_turns

    @max_turns.setter
    def max_turns(self, value: int) -> None:
        self.env.max_turns = value
