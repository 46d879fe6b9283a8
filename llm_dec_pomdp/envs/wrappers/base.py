"""Wrappers of text environments: whatever a wrapper does not change comes from the environment inside."""

# `inside` stands for properties too, which pyright does not see.
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...types import Message, TaskItem
from ..base import TextDecPOMDP
from ..task import Task

if TYPE_CHECKING:
    from typing_extensions import Self


class _Inside:
    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, wrapper: Any, owner: type) -> Any:
        return self if wrapper is None else getattr(wrapper.env, self._name)


def inside() -> Any:
    """An attribute or a method of the environment inside, of any type, unless the wrapper sets its own."""
    return _Inside()


class Wrapper(TextDecPOMDP):
    """Base of communication protocols, and of tasks that wrap another task."""

    env: TextDecPOMDP
    roles = inside()
    components = inside()
    diagnostics = inside()
    hidden_fields = inside()
    reference_share = inside()
    silence_is_lowest = inside()
    joint_reward = inside()
    judges_code = inside()
    judge = inside()
    spec = inside()
    reward_range = inside()
    score_range = inside()
    max_return = inside()
    score_scale = inside()
    items = inside()
    menu = inside()
    shown = inside()
    split_joint_text = inside()
    join_texts = inside()
    measure = inside()

    def _wrap(self, env: TextDecPOMDP, name: str) -> None:
        """Take an environment inside; the name of the wrapper follows its own."""
        self.env = env
        self.metadata = {**env.metadata, "name": f"{env.metadata['name']}/{name}"}

    def _around(self, env: TextDecPOMDP) -> Self:
        """The same wrapper around another environment."""
        twin = copy.copy(self)
        twin.env = env
        return twin

    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """A copy that plays other tasks, as they are given."""
        return self._around(self.env.with_items(items))

    def fork(self) -> TextDecPOMDP:
        """An independent copy at the same decision point."""
        return TextDecPOMDP.fork(self._around(self.env.fork()))


class Around(Protocol):
    """The state of a wrapper, which holds that of the inner task."""

    @property
    def inner(self) -> Any:
        """That of the inner task."""
        ...


S = TypeVar("S", bound=Around)


class TaskAround(Wrapper, Task[S]):
    """A task around another one: derive, and implement `initial_state`, `transition` and whatever else is different.

    Args:
        env: The inner task. A protocol goes around this wrapper, not into it.
        name: Of the wrapper.
    """

    env: Any  # a Task, or a wrapper of one
    hears_others = inside()
    hierarchical = inside()
    vocabulary = inside()
    tools = inside()
    choices = inside()
    gold = inside()
    gold_table = inside()
    scripts = inside()

    def __init__(self, env: Task[Any], name: str) -> None:
        self._wrap(env, name)
        TextDecPOMDP.__init__(self, len(env.possible_agents), env.max_turns, env.render_mode)  # has tasks already

    def told(self, state: S) -> Mapping[str, str | Message]:
        """As in the inner task."""
        return self.env.told(state.inner)

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
