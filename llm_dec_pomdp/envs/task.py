"""The base class of tasks: items, a hidden state, chance, and observations.

    class Door(Task[bool]):                                        # the state: is the tiger behind the left door?
        def initial_state(self, item, seed): return uniforms(seed, 1)[0] < 0.5
        def observations(self, state): return dict.fromkeys(self.possible_agents, "Listen or open?")
        def transition(self, state, actions, seed): return Transition(state, reward=-1.0)

A state is an immutable value, so snapshots, forks and replays are exact. All chance comes from the given seeds; a task
keeps no random generator. `envs.text_task` is the special case of scored texts.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypedDict, cast

from ..types import Message, TaskItem
from .base import TextDecPOMDP
from .episode import EpisodeError, Outcome, S, Transition
from .streams import TaskStream, is_stream, open_stream
from .tasks import TaskError, Tasks, TaskSource, is_sample, load_tasks


def check_int(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` as an int.

    Raises:
        ValueError: `value` is not an integer within [least, most]. True and False do not count as integers.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"{name} is {value!r}; it must be a whole number, {bounds}")
    return value


class TaskOptions(TypedDict, total=False):
    """The options that every task takes besides `tasks`; see `Task`."""

    split: str | None
    fields: Mapping[str, str] | None
    max_turns: int
    render_mode: str | None
    streaming: bool


class Task(TextDecPOMDP, Generic[S]):
    """Base of tasks: set `declared` and `source`; implement `initial_state`, `observations` and `transition`.

    A constructor with its own options passes the common ones on:

        def __init__(self, tasks: Tasks = "sample", *, n_agents: int = 3, **common: Unpack[TaskOptions]) -> None:
            self.declared = replace(self.declared, roles=("sender",) * n_agents)
            super().__init__(tasks, **common)

    Args:
        tasks: `"sample"`, `"hub"`, a path, or items; see `envs.tasks.load_tasks`. An iterable without a length, such as
            a `datasets.IterableDataset`, is a stream, see `envs.streams`.
        split: "train", "test" or "all".
        fields: Field mapping for files, e.g. `{"prompt": "abstract"}`.
        max_turns: The horizon H.
        render_mode: None, "ansi" or "human".
        streaming: Read `"hub"` or a .jsonl file during training instead of before it.
    """

    source: ClassVar[TaskSource]
    _stream: TaskStream | None = None

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        split: str | None = None,
        fields: Mapping[str, str] | None = None,
        max_turns: int = 1,
        render_mode: str | None = None,
        streaming: bool = False,
    ) -> None:
        self.metadata = {**self.metadata, "name": self.declared.name}
        super().__init__(len(self.declared.roles), max_turns, render_mode)
        self._rows_of = "" if is_sample(tasks) else str(tasks) if isinstance(tasks, (str, Path)) else "items"
        if streaming or is_stream(tasks):
            self._stream = open_stream(self.source, tasks, split, fields, self._complete)
            return
        loaded = load_tasks(self.source, tasks, split, fields)
        self._items = self._complete(loaded)
        if not self._items:
            raise TaskError(f"{self.metadata['name']} leaves out every row ({loaded[0].id!r}, ...); give other tasks")

    def _complete(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Return the items to play.

        Raises:
            TaskError: A row of the user can never be scored.
        """
        for item in items if self._rows_of else ():
            if problem := self.unusable(item):
                raise TaskError(f"{self._rows_of}, task {item.id!r}, {problem}")
        return self.prepare(items)

    # --- what a task implements ----------------------------------------------------------------------------------

    @abstractmethod
    def initial_state(self, item: TaskItem, seed: int) -> S:
        """Return the first state of an episode. Pure: all chance follows from the seed."""

    @abstractmethod
    def observations(self, state: S) -> Mapping[str, str | Message]:
        """Return the observation of each agent in a state. An agent that is missing here observes nothing."""

    @abstractmethod
    def transition(self, state: S, actions: Mapping[str, str], seed: int) -> Transition[S]:
        """Return the result of a joint action: the texts of the agents that had to act.

        Pure: all chance follows from the seed.
        """

    def asks(self, state: S) -> Collection[str] | None:
        """Return the agents that have to act in a state. Default (None): all that observe something."""
        return None

    def roster(self, state: S) -> Sequence[str]:
        """Return the live agents in a state. Default: all."""
        return self.possible_agents

    def describe(self, state: S) -> Mapping[str, Any]:
        """Return the hidden part of the state as plain data for `state()`, never for an agent. Default: empty."""
        return {}

    def offered_texts(self, item: TaskItem, role: str) -> Mapping[str, str]:
        """Return candidate actions by kind, for policies that choose and do not write. Default: none."""
        return {}

    def with_candidates(self) -> TextDecPOMDP:
        """Return the task with agents that choose a candidate action by its letter; see `make(candidates=True)`."""
        from .wrappers.choices import Choices

        return Choices(self, self.offered_texts)

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Complete or filter the loaded rows. Default: all, unchanged."""
        return items

    def problem(self, item: TaskItem) -> str:
        """Return why a row of the user can never be scored, naming its field; "" (the default) if it can."""
        return ""

    def unusable(self, item: TaskItem) -> str:
        """Return why a row can never be scored: its `problem`, or a condition of the base class that it violates."""
        return self.problem(item)

    # --- what the base class does --------------------------------------------------------------------------------

    @property
    def items(self) -> tuple[TaskItem, ...]:
        """Return the task set.

        Raises:
            TaskError: The tasks are a stream.
        """
        if self._stream is not None:
            raise TaskError(
                f"the tasks of {self.metadata['name']} are a stream ({self._stream.place}), which is for training "
                "only; take its first tasks with env.with_items(env.stream.read(0, 100)), or give other tasks"
            )
        return self._items

    @property
    def stream(self) -> TaskStream | None:
        """Return the stream of tasks; None if all tasks are loaded."""
        return self._stream

    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """Return a copy with other tasks, which are neither validated nor completed."""
        twin = copy.copy(self)
        twin._items, twin._stream = tuple(items), None
        return twin

    def _hidden(self) -> Mapping[str, Any]:
        """Return the hidden part of the current state as plain data."""
        state = self._now.latest.transition.state
        return {} if state is None else self.describe(state)

    def _start(self, item: TaskItem, seed: int) -> Outcome:
        state = self.initial_state(item, seed)
        if problem := mutable_part(state):
            raise EpisodeError(f"the state of {self.metadata['name']} is {state!r:.80}: {problem}")
        return self._outcome(Transition(state, 0.0))

    def _advance(self, item: TaskItem, actions: Mapping[str, str], seed: int) -> Outcome:
        return self._outcome(self.transition(self._now.latest.transition.state, actions, seed))

    def _outcome(self, after: Transition[S]) -> Outcome:
        state = after.state
        return Outcome(self.observations(state), after, self.asks(state), self.roster(state))


def mutable_part(value: Any) -> str:
    """Return a description of the first mutable part of a state; "" if the state is immutable."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, range, enum.Enum, TaskItem)):
        return ""
    parts: Iterable[Any] | None = None
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (tuple, frozenset)):
        parts = cast("Iterable[Any]", value)
    elif dataclasses.is_dataclass(value) and kind.__dataclass_params__.frozen:
        parts = [getattr(value, part.name) for part in dataclasses.fields(value)]
    if parts is not None:
        problems = [mutable_part(part) for part in parts]
        return next(filter(None, problems), "")
    return (
        f"{value!r:.40} is a {kind.__name__}, which can change; a state is made of numbers, texts, tuples, "
        "frozensets and frozen dataclasses"
    )
