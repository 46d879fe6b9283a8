"""A task: its items, a hidden state, chance, and what agents are told.

    class Door(Task[bool]):                                        # the state: is the tiger behind the left door?
        def initial_state(self, item, seed): return uniforms(seed, 1)[0] < 0.5
        def observations(self, state): return dict.fromkeys(self.possible_agents, "Listen or open?")
        def transition(self, state, actions, seed): return Transition(state, reward=-1.0)

A state is an immutable value, so that snapshots, forks and replays are right by construction. All chance comes from the
given seeds, never from a generator that the task keeps. `envs.text_task` is the special case of scored texts.
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


class TaskOptions(TypedDict, total=False):
    """The options that every task takes beside `tasks`; see `Task`."""

    split: str | None
    fields: Mapping[str, str] | None
    max_turns: int
    render_mode: str | None
    streaming: bool


class Task(TextDecPOMDP, Generic[S]):
    """Say what is `declared` and where the rows come from, implement `initial_state`, `observations` and `transition`.

    A constructor with options of its own hands the common ones on as they are:

        def __init__(self, tasks: Tasks = "sample", *, n_agents: int = 3, **common: Unpack[TaskOptions]) -> None:
            self.declared = replace(self.declared, roles=("sender",) * n_agents)
            super().__init__(tasks, **common)

    Args:
        tasks: `"sample"`, `"hub"`, a path, or items; see `envs.tasks.load_tasks`. An iterable without a length, such as
            a `datasets.IterableDataset`, is a stream, see `envs.streams`.
        split: "train", "test" or "all".
        fields: Field mapping for files, e.g. `{"prompt": "abstract"}`.
        max_turns: H.
        render_mode: None, "ansi" or "human".
        streaming: Read `"hub"` or a .jsonl file while a team trains, and not before.
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
            raise TaskError(f"{self.metadata['name']} leaves out every row ({loaded[0].id!r}, ...); give others")

    def _complete(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Items as they are played; raises TaskError for a row of the caller that can never be scored."""
        for item in items if self._rows_of else ():
            if problem := self.unusable(item):
                raise TaskError(f"{self._rows_of}, task {item.id!r}, {problem}")
        return self.prepare(items)

    # --- what a task implements ----------------------------------------------------------------------------------

    @abstractmethod
    def initial_state(self, item: TaskItem, seed: int) -> S:
        """The state at the beginning. Pure: all chance follows from the seed."""

    @abstractmethod
    def observations(self, state: S) -> Mapping[str, str | Message]:
        """What agents are told in a state; those that are missing are told nothing."""

    @abstractmethod
    def transition(self, state: S, actions: Mapping[str, str], seed: int) -> Transition[S]:
        """What follows the texts of the agents that were asked. Pure: all chance follows from the seed."""

    def asks(self, state: S) -> Collection[str] | None:
        """The agents that have to answer in a state. Default: all that are told something (None)."""
        return None

    def roster(self, state: S) -> Sequence[str]:
        """The live agents in a state. Default: all."""
        return self.possible_agents

    def describe(self, state: S) -> Mapping[str, Any]:
        """The hidden part of the state as plain data for `state()`, never for an agent. Default: nothing."""
        return {}

    def offered_texts(self, item: TaskItem, role: str) -> Mapping[str, str]:
        """Return texts by kind among which an agent may choose, for policies that cannot write. Default: none."""
        return {}

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Complete the rows as they were loaded, or leave some out. Default: all as they are."""
        return items

    def problem(self, item: TaskItem) -> str:
        """Why a row of the caller can never be scored, naming its field; "" (the default) where it can."""
        return ""

    def unusable(self, item: TaskItem) -> str:
        """The `problem` of a row, or what is wrong with it in every task of this kind."""
        return self.problem(item)

    # --- what follows from it ------------------------------------------------------------------------------------

    @property
    def items(self) -> tuple[TaskItem, ...]:
        """The task set.

        Raises:
            TaskError: It is a stream.
        """
        if self._stream is not None:
            raise TaskError(
                f"the tasks of {self.metadata['name']} are a stream ({self._stream.place}), which only a training "
                "plays; take its first ones (env.with_items(env.stream.read(0, 100))), or give others"
            )
        return self._items

    @property
    def stream(self) -> TaskStream | None:
        """Its tasks, where they are read one after the other."""
        return self._stream

    def with_items(self, items: Sequence[TaskItem]) -> TextDecPOMDP:
        """A copy that plays other tasks, as they are given."""
        twin = copy.copy(self)
        twin._items, twin._stream = tuple(items), None
        return twin

    def _hidden(self) -> Mapping[str, Any]:
        """The hidden part of the present state as plain data."""
        state = self._now.latest.transition.state
        return {} if state is None else self.describe(state)

    def _begin(self, item: TaskItem, seed: int) -> Outcome:
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
    """Which part of a state is mutable, in words; "" where none is."""
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
