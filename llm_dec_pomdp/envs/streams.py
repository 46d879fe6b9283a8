"""Task streams: tasks that are read in order during training, from data sets larger than a disk or without an end.

    train_rows = datasets.load_dataset("trl-lib/tldr", split="train", streaming=True)
    env = make("tldr-v0", tasks=train_rows)                        # any iterable without a length
    env = make("tldr-v0", tasks="rows.jsonl", streaming=True)      # a file, or "hub"

Each training step takes the next rows. After the last row the stream starts again with the first. So the number of a
row identifies it, and a resumed run continues at the right row. An operation that needs all rows, such as an
evaluation, raises an error; `envs.base.first_rows` makes an environment of the first rows.
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
    """The items of a task set of unknown length.

    Args:
        epoch: Returns an iterator over the items of an epoch, given its number from 0.
        place: Origin of the items, for error messages.

    Attributes:
        first: The first item.

    Raises:
        TaskError: There is no item, or the first row cannot be used.
    """

    def __init__(self, epoch: Callable[[int], Iterator[TaskItem]], place: str) -> None:
        self._epoch, self.place = epoch, place
        self._coming, self._position = self._endless(), 0
        self.first = next(self._coming)
        self._coming = itertools.chain([self.first], self._coming)

    def read(self, start: int, count: int) -> tuple[TaskItem, ...]:
        """Return items `start` to `start + count - 1`, counted from 0 through all epochs, without duplicates.

        To go back, the stream is read again from the beginning; to go forward, rows are skipped.

        Raises:
            TaskError: A row cannot be read or used, or two different rows have the same id.
        """
        if start < self._position:
            self._coming, self._position = self._endless(), 0
        read = list(itertools.islice(self._coming, start - self._position, start - self._position + count))
        self._position = start + count
        items: dict[str, TaskItem] = {}
        for item in read:
            if items.setdefault(item.id, item) != item:
                raise TaskError(f"{self.place}: id {item.id!r} occurs in two different rows; give each row a unique id")
        return tuple(items.values())

    def _endless(self) -> Iterator[TaskItem]:
        for epoch in itertools.count():
            ended = True
            for item in self._epoch(epoch):
                ended = False
                yield item
            if ended:
                raise TaskError(f"{self.place}: no rows; give at least one")


def is_stream(tasks: object) -> bool:
    """Return whether tasks are a re-iterable without a length, such as a `datasets.IterableDataset`."""
    return hasattr(tasks, "__iter__") and not isinstance(tasks, Iterator) and not hasattr(tasks, "__len__")


def open_stream(
    source: TaskSource, tasks: Tasks, split: str | None, fields: Mapping[str, str] | None, complete: Complete
) -> TaskStream:
    """Return the stream of a task set.

    Args:
        source, split, fields: As in `load_tasks`.
        tasks: "hub", the path of a .jsonl file, or an iterable that starts again at each `iter`.
        complete: Completes items to the tasks of an environment; may leave items out.

    Raises:
        TaskError: The tasks cannot be streamed; or see `TaskStream`.
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
    """Return the function that starts an epoch, the origin of rows, the stem of their ids, and the split to take."""
    if is_sample(tasks):
        raise TaskError(f"tasks is 'sample', the embedded rows of {source.name}, which are no stream; remove streaming")
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
            raise TaskError(f"task file {str(path)!r} cannot be streamed; give a .jsonl file with one object per line")
        return lambda number: _lines(path), str(path), path.stem, split
    if not hasattr(tasks, "__iter__") or isinstance(tasks, (Iterator, Mapping)):
        raise TaskError(
            f"tasks is {tasks!r:.60}, which cannot be read twice, as a resumed run must; give a "
            "datasets.IterableDataset, or an object whose __iter__ starts again"
        )

    def given(number: int) -> Iterator[Any]:
        if hasattr(tasks, "set_epoch"):  # data sets that are shuffled in each epoch
            tasks.set_epoch(number)
        return iter(tasks)

    return given, "the given stream", "row", split


def _lines(path: Path) -> Iterator[Any]:
    for number, line in iterate_lines(path):
        if line.strip():
            yield parse(line, f"{path}, line {number}")


def _explained(rows: Iterator[Any], place: str) -> Iterator[Any]:
    """Yield the rows; raise TaskError with the place if reading the next row fails."""
    for number in itertools.count(1):
        try:
            row = next(rows)
        except StopIteration:
            return
        except FileError as error:
            raise TaskError(f"task file {error}") from None
        except Exception as error:  # of the caller's iterable, or a dozen unrelated types of the hub's client
            raise TaskError(
                f"{place}, row {number}, could not be read: {type(error).__name__}: {error}; check the data set and "
                "the network, and resume the run"
            ) from error
        yield row
