"""Tasks that are read one after the other while a team trains: data sets larger than a disk, or without an end.

    train_rows = datasets.load_dataset("trl-lib/tldr", split="train", streaming=True)
    env = make("tldr-v0", tasks=train_rows)                        # any iterable without a length
    env = make("tldr-v0", tasks="rows.jsonl", streaming=True)      # a file, or "hub"

A training step takes the next rows. After the last one it begins again with the first, so that the number of a row says
which it is, and a run that is resumed goes on at the right one. What needs to know all rows, as an evaluation does, is
an error that says so; `envs.base.first_rows` makes an environment of the first ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..storage.reading import FileError, iterate_lines, parse
from ..types import TaskItem
from .hub import stream_published
from .tasks import TaskError, Tasks, TaskSource, columns_of, is_sample, item_of_row, split_of

Complete = Callable[[tuple[TaskItem, ...]], tuple[TaskItem, ...]]


class TaskStream:
    """The items of a task set of which nobody knows the length.

    Args:
        epoch: Begins anew with the items of an epoch, given its number from 0.
        place: Where they come from, for messages.

    Attributes:
        first: The first item.

    Raises:
        TaskError: There is none, or its row cannot be used.
    """

    def __init__(self, epoch: Callable[[int], Iterator[TaskItem]], place: str) -> None:
        self._epoch, self.place = epoch, place
        self._coming, self._position = self._endless(), 0
        self.first = next(self._coming)
        self._coming = itertools.chain([self.first], self._coming)

    def read(self, start: int, count: int) -> tuple[TaskItem, ...]:
        """Items `start` to `start + count - 1`, counted from 0 through all epochs; one that comes twice is there once.

        To go back, or to begin further on, everything before is read again.

        Raises:
            TaskError: A row that cannot be read or used, or two with one id.
        """
        if start < self._position:
            self._coming, self._position = self._endless(), 0
        read = list(itertools.islice(self._coming, start - self._position, start - self._position + count))
        self._position = start + count
        items: dict[str, TaskItem] = {}
        for item in read:
            if items.setdefault(item.id, item) != item:
                raise TaskError(f"{self.place}: id {item.id!r} stands in two rows of one step; ids are unique")
        return tuple(items.values())

    def _endless(self) -> Iterator[TaskItem]:
        for epoch in itertools.count():
            ended = True
            for item in self._epoch(epoch):
                ended = False
                yield item
            if ended:
                raise TaskError(f"{self.place}: no rows; a task set needs at least one")


def is_stream(tasks: object) -> bool:
    """Whether these rows can be read again and again, and have no length: a `datasets.IterableDataset` and its like."""
    return hasattr(tasks, "__iter__") and not isinstance(tasks, Iterator) and not hasattr(tasks, "__len__")


def open_stream(
    source: TaskSource, tasks: Tasks, split: str | None, fields: Mapping[str, str] | None, complete: Complete
) -> TaskStream:
    """The stream of a task set.

    Args:
        source, split, fields: As in `load_tasks`.
        tasks: "hub", the path of a .jsonl file, or an iterable that begins anew whenever it is asked.
        complete: Makes the tasks of an environment of items, or leaves them out.

    Raises:
        TaskError: Tasks that are no stream, or see `TaskStream`.
    """
    columns = columns_of(source, split, fields)
    rows, place, stem, split = _rows(source, tasks, split)

    def epoch(number: int) -> Iterator[TaskItem]:
        for row_number, row in enumerate(_explained(rows(number), place), 1):
            item = item_of_row(row, source, columns, f"{place}, row {row_number}", f"{stem}/{row_number}")
            if split == "all" or (split_of(item) if split or item.split else "train") == (split or "train"):
                yield from complete((item,))

    return TaskStream(epoch, place)


def _rows(source: TaskSource, tasks: Any, split: str | None) -> tuple[Callable[[int], Iterator[Any]], str, str, Any]:
    """What begins an epoch, given its number; where rows come from; the stem of their ids; the split to take."""
    if is_sample(tasks):
        raise TaskError(f"tasks is 'sample', {source.name}'s embedded rows, which are no stream; leave streaming out")
    if isinstance(tasks, str) and tasks == "hub":
        if not source.hub:
            raise TaskError(f"{source.name} has no published data set; give the path of a .jsonl file")
        parts = list(source.hub_splits) if split == "all" else [split or "train"]

        def published(number: int) -> Iterator[Any]:
            for part in parts:
                loaded = stream_published(source.hub, source.hub_config, source.hub_splits[part])
                yield from ({**row, "split": part} for row in loaded)

        return published, source.hub, source.hub, "all"
    if isinstance(tasks, (str, Path)):
        path = Path(tasks)
        if path.suffix.lower() != ".jsonl":
            raise TaskError(f"task file {str(path)!r} is no .jsonl, an object in each line, so it is no stream")
        return lambda number: _lines(path), str(path), path.stem, split
    if not hasattr(tasks, "__iter__") or isinstance(tasks, (Iterator, Mapping)):
        raise TaskError(
            f"tasks is {tasks!r:.60}, which cannot be read twice, as a resumed run has to; give a "
            "datasets.IterableDataset, or an object whose __iter__ begins anew"
        )

    def given(number: int) -> Iterator[Any]:
        if hasattr(tasks, "set_epoch"):  # for data sets that are shuffled anew
            tasks.set_epoch(number)
        return iter(tasks)

    return given, "the given stream", "row", split


def _lines(path: Path) -> Iterator[Any]:
    for number, line in iterate_lines(path):
        if line.strip():
            yield parse(line, f"{path}, line {number}")


def _explained(rows: Iterator[Any], place: str) -> Iterator[Any]:
    """The rows; raises TaskError, with the place, where there is no next one because of an error."""
    for number in itertools.count(1):
        try:
            row = next(rows)
        except StopIteration:
            return
        except FileError as error:
            raise TaskError(f"task file {error}") from None
        except Exception as error:  # of the caller's iterable, or a dozen unrelated types of the hub's client
            raise TaskError(
                f"{place}, row {number}, could not be read: {type(error).__name__}: {error}; look at the data set and "
                "the network, and resume the run"
            ) from error
        yield row
