"""Task sets: the rows of an environment and their sources.

A `TaskSource` names the embedded rows, the published data set and the required fields. `load_tasks` reads rows from the
package (`"sample"`), from the hub (`"hub"`) or from a JSONL or JSON file. For a bad row it raises an error with the
file, the row, the field and the remedy. `envs.streams` reads rows in order during training.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..registries import UnknownNameError, nearest
from ..storage.reading import LARGEST, FileError, is_there, parse, read_text
from ..types import TaskItem
from .hub import load_published

Row = Mapping[str, Any]
"""A row of a task file, by field."""
Tasks = str | Path | Iterable[TaskItem] | Iterable[Row]
"""Tasks as `make` takes them: "sample", "hub", a path, items or rows; see `load_tasks`."""
SPLITS = ("train", "test", "all")
ALL_ROWS = (
    "give every row a field `split` (train or test), or use all rows with split='all' (on the command line "
    "--split all; for the evaluation of a training --eval-split all)"
)
_ID_FIELDS = ("id", "task_id")
_CHOICES = ("task_id", "index")  # options of a reset
_SUFFIXES = (".jsonl", ".json")  # of task files
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
_ABSENT = ("NAType", "NaTType")  # types of absent values in pandas, which is not imported here


class TaskError(ValueError):
    """A task set that cannot be used; the message names the place and the remedy."""


@dataclass(frozen=True)
class TaskSource:
    """The sources of an environment's tasks.

    Attributes:
        name: Short name, also the file name of the embedded sample.
        hub: Name of the published data set; "" if there is none.
        hub_splits: Slice of the published data set per split, in `datasets` notation; slices must not overlap.
        required: Fields that every row must have, by their names in this package.
        fields: This package's field name -> the data set's name, for the hub and for files; a file may use either name.
        sample: The embedded rows: a function that makes items, or the path of a .jsonl file of your package. Default:
            `data/<name>.jsonl` of this package.
        hub_config: Configuration of the published data set, if it has several.
        every_split: True if the embedded rows are in every split.
        convert: Converts a row of the published data set, from the hub or a file, to this package's fields; returns
            other rows unchanged.
    """

    name: str
    hub: str = ""
    hub_splits: Mapping[str, str] = field(default_factory=dict[str, str])
    required: tuple[str, ...] = ("prompt",)
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    sample: Callable[[], Sequence[TaskItem]] | Path | None = None
    hub_config: str | None = None
    convert: Callable[[Row], Row] | None = None
    every_split: bool = False


@dataclass(frozen=True)
class Columns:
    """Column names of fields: the caller's (`asked`), else the data set's (`usual`) or this package's."""

    usual: Mapping[str, str] = field(default_factory=dict[str, str])
    asked: Mapping[str, str] = field(default_factory=dict[str, str])

    def candidates(self, name: str) -> tuple[str, ...]:
        """Return the columns that may contain the field."""
        return (self.asked[name],) if name in self.asked else (self.usual.get(name, name), name)

    def find(self, name: str, row: Row) -> str:
        """Return the column that contains the field; the first candidate if none does."""
        return next((column for column in self.candidates(name) if column in row), self.candidates(name)[0])

    def wanted(self, name: str) -> str:
        """Return the candidate columns of a field, for an error message."""
        return " or ".join(map(repr, dict.fromkeys(self.candidates(name))))


def load_tasks(
    source: TaskSource,
    tasks: Tasks = "sample",
    split: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> tuple[TaskItem, ...]:
    """Read and validate a task set.

    Args:
        source: The sources that the environment declares.
        tasks: `"sample"` (embedded, works offline), `"hub"` (the published data set), the path of a `.jsonl` or `.json`
            file, or rows: dictionaries, a `datasets.Dataset`, a pandas `DataFrame`, or `TaskItem` objects. A value that
            is null or NaN counts as absent.
        split: "train", "test" or "all". Default: "train" for sample and hub; for other rows "train" if they have a
            `split` field, else "all". Rows without that field are split by a hash of the prompt: a fifth are test rows.
            So a prompt stays in its split if rows are reordered or added. If a split of several prompts would be empty,
            it gets the prompt with the lowest (test) or highest (train) hash.
        fields: Extra field mapping, this package's name -> the name in the file, e.g. `{"prompt": "abstract"}`.

    Raises:
        TaskError: The path, format, field, type or id is wrong, the set is empty, or the hub cannot be reached.
    """
    columns = columns_of(source, split, fields)
    given = () if isinstance(tasks, (str, Path)) else _rows(tasks)
    ready = any(isinstance(row, TaskItem) for row in given)
    if fields and (ready or is_sample(tasks)):
        raise TaskError(f"{source.name}: fields is {dict(fields)}, but these tasks have no columns; remove fields")
    if not isinstance(tasks, (str, Path)):
        items, place = _checked(given, source) if ready else _from_rows(given, source, columns), "the given rows"
    elif is_sample(tasks):
        items, place = _sample(source), f"the embedded {source.name} tasks"
        split = "all" if source.every_split else split
    elif tasks == "hub":
        items, place, split = _from_hub(source, split or "train", columns), source.hub, "all"
    else:
        items, place = _from_file(source, Path(tasks), columns), str(tasks)
    return _select(items, split, place)


def columns_of(source: TaskSource, split: str | None, fields: Mapping[str, str] | None) -> Columns:
    """Return the columns of a source; raise TaskError for an unknown split or an unknown field."""
    if split is not None and split not in SPLITS:
        raise TaskError(f"split {split!r} does not exist; {nearest(split, SPLITS)}")
    unknown = set(fields or {}) - {*source.required, *_ID_FIELDS, "split", "reference"}
    if unknown:
        raise TaskError(
            f"{source.name}: fields maps {sorted(unknown)}, which this task does not use; "
            f"map {', '.join(source.required)}, id, split or reference"
        )
    return Columns(source.fields, fields or {})


def is_sample(tasks: Tasks) -> bool:
    """Return whether these are the embedded rows."""
    return isinstance(tasks, str) and tasks == "sample"


def _rows(tasks: Any) -> tuple[Any, ...]:
    """Return the rows of an iterable."""
    if hasattr(tasks, "itertuples"):  # a DataFrame, which iterates over its columns
        tasks = tasks.to_dict("records")
    if isinstance(tasks, Mapping) or not isinstance(tasks, Iterable):
        raise TaskError(
            f"tasks is {tasks!r:.60}; give 'sample', 'hub', a path, or rows: dictionaries, "
            "a Dataset, a DataFrame or TaskItem objects"
        )
    return tuple(cast("Iterable[Any]", tasks))


def _checked(tasks: tuple[Any, ...], source: TaskSource) -> tuple[TaskItem, ...]:
    """Return the given items; raise TaskError for repeated ids or missing fields."""
    seen: set[str] = set()
    for item in tasks:
        if not isinstance(item, TaskItem):
            raise TaskError(f"the given items contain a {type(item).__name__} ({item!r:.60}); give TaskItem objects")
        _check_item(item, source)
        if item.id in seen:
            raise TaskError(f"item {item.id!r} is given twice; give each item a unique id")
        seen.add(item.id)
    return tasks


def _check_item(item: TaskItem, source: TaskSource) -> None:
    values = {"prompt": item.prompt, **item.fields}
    for name in source.required:
        value: Any = values.get(name)
        if not isinstance(value, str) or not value.strip():
            what = f"is {value!r:.60}; give it text" if name in values else "is missing"
            raise TaskError(f"item {item.id!r}: field {name!r} {what}; {source.name} needs {source.required}")


def _sample(source: TaskSource) -> tuple[TaskItem, ...]:
    if source.sample is None:
        return _embedded(source.name, source.required)
    if isinstance(source.sample, Path):
        return _from_file(source, source.sample, Columns(source.fields))
    return _checked(tuple(source.sample()), source)


@functools.cache
def _embedded(name: str, required: tuple[str, ...]) -> tuple[TaskItem, ...]:
    text = (resources.files("llm_dec_pomdp.data") / f"{name}.jsonl").read_text(encoding="utf-8")
    rows = [row for _, row in json_lines(text, name)]
    return _validate(rows, f"data/{name}.jsonl", required, Columns())


def _from_hub(source: TaskSource, split: str, columns: Columns) -> tuple[TaskItem, ...]:
    if not source.hub:
        raise TaskError(f"{source.name} has no published data set; use tasks='sample' or the path of a file")
    parts = list(source.hub_splits) if split == "all" else [split]
    rows: list[Row] = []
    for part in parts:
        try:
            loaded = load_published(source.hub, source.hub_config, source.hub_splits[part])
        except Exception as error:  # the hub client raises many unrelated types
            raise TaskError(
                f"the published data set {source.hub!r} ({source.hub_splits[part]}) could not be loaded: "
                f"{type(error).__name__}: {error}; check the network (or fill the datasets cache), use tasks='sample' "
                "for the embedded rows, or tasks='file.jsonl' for your own file"
            ) from error
        rows += [{**row, "split": part} for row in loaded]
    return _validate(_converted(rows, source, source.hub), source.hub, source.required, columns)


def _converted(rows: Sequence[Any], source: TaskSource, place: str) -> list[Any]:
    """Return the rows with this package's fields.

    Raises:
        TaskError: A row cannot be converted.
    """
    return [_convert(row, source, f"{place}, row {number}") for number, row in enumerate(rows, 1)]


def _convert(row: Any, source: TaskSource, place: str) -> Any:
    """Return a row with this package's fields and plain values; absent values are None."""
    try:
        plain: Any = _plain(row)
    except RecursionError:
        raise TaskError(f"{place}: its values are nested too deeply; correct or remove it") from None
    if source.convert is None or not isinstance(plain, dict):
        return plain
    plain = cast("dict[str, Any]", plain)
    try:
        converted = source.convert({name: value for name, value in plain.items() if value is not None})
        return {**dict.fromkeys(plain), **converted}
    except (TaskError, KeyError, TypeError, ValueError, SyntaxError) as error:
        what = str(error) if isinstance(error, TaskError) else f"{type(error).__name__}: {error}"
        raise TaskError(
            f"{place}, cannot be read as a row of {source.hub or source.name}: {what}; correct or remove it"
        ) from error


def _plain(value: Any) -> Any:
    """Return a numpy or pandas value as a plain Python value; NaN and other absent values become None."""
    plain = cast("Any", value).tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    if isinstance(plain, dict):
        return {name: _plain(inner) for name, inner in cast("dict[Any, Any]", plain).items()}
    if isinstance(plain, (list, tuple)):
        return [_plain(inner) for inner in cast("Sequence[Any]", plain)]
    return None if type(plain).__name__ in _ABSENT or (isinstance(plain, float) and math.isnan(plain)) else plain


def item_of_row(row: Any, source: TaskSource, columns: Columns, place: str, default_id: str) -> TaskItem:
    """Return the item of one row; a `TaskItem` is returned unchanged.

    Raises:
        TaskError: A field is missing or has the wrong type; the message begins with `place` or names the item.
    """
    if isinstance(row, TaskItem):
        _check_item(row, source)
        return row
    return _item(_convert(row, source, place), place, source.required, columns, default_id)


def _from_file(source: TaskSource, path: Path, columns: Columns) -> tuple[TaskItem, ...]:
    if not is_there(path) or path.is_dir():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise TaskError(f"task file {str(path)!r} {kind}; give 'sample', 'hub', or the path of a .jsonl or .json file")
    if path.suffix.lower() in _PACKED:
        raise TaskError(
            f"task file {str(path)!r} is compressed; decompress it and give the path of the .jsonl or .json file"
        )
    if path.suffix.lower() not in _SUFFIXES:
        raise TaskError(
            f"task file {str(path)!r} is no .jsonl (one object per line) or .json (a list of objects); convert a table "
            f"with pandas: read_csv(...).to_json({path.with_suffix('.jsonl').name!r}, orient='records', lines=True)"
        )
    try:
        text = read_text(path, LARGEST)
    except FileError as error:
        raise TaskError(f"task file {error}") from None
    return _from_rows(_parse(text, path), source, columns, str(path), stem=path.stem)


def _from_rows(
    rows: Sequence[Any], source: TaskSource, columns: Columns, place: str = "the given rows", stem: str = "row"
) -> tuple[TaskItem, ...]:
    return _validate(_converted(rows, source, place), place, source.required, columns, stem)


def _parse(text: str, path: Path) -> list[Any]:
    if path.suffix.lower() == ".json":
        try:
            rows = parse(text, str(path))
        except FileError as error:
            raise TaskError(f"{error}; if it has one object per line, rename it to .jsonl") from None
        if not isinstance(rows, list):
            raise TaskError(f"{path}: contains one {type(rows).__name__}; give a list of objects")
        return rows  # pyright: ignore[reportUnknownVariableType]
    return [row for _, row in json_lines(text, str(path))]


def json_lines(text: str, source: str) -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of every non-empty line of a text.

    Raises:
        TaskError: A line is not JSON; the message names the source and the line.
    """
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{source}, line {number}"
        try:
            if line.strip():
                yield place, parse(line, place)
        except FileError as error:
            raise TaskError(str(error)) from None


def _validate(
    rows: Sequence[Any], place: str, required: tuple[str, ...], columns: Columns, stem: str = ""
) -> tuple[TaskItem, ...]:
    items: list[TaskItem] = []
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        item = _item(row, f"{place}, row {number}", required, columns, default_id=f"{stem or place}/{number}")
        if item.id in seen:
            raise TaskError(
                f"{place}, row {number}: id {item.id!r} is also the id of row {seen[item.id]}; give each row its own id"
            )
        seen[item.id] = number
        items.append(item)
    return tuple(items)


def _item(raw: Any, place: str, required: tuple[str, ...], columns: Columns, default_id: str) -> TaskItem:
    if not isinstance(raw, dict):
        raise TaskError(f"{place}: is a {type(raw).__name__}; give an object with the fields {', '.join(required)}")
    given = cast("Row", raw)
    row = {name: value for name, value in given.items() if value is not None}
    values = {name: _text(row, name, place, columns, required) for name in required}
    for name, column in columns.asked.items():
        if column not in given:  # a missing required field raised an error above
            raise TaskError(
                f"{place}: field {column!r}, which is mapped to {name}, is missing; correct the mapping or the row"
            )
    reference: Any = row.get(columns.find("reference", row), ())
    if not isinstance(reference, (list, tuple)) or not all(isinstance(text, str) for text in reference):  # pyright: ignore[reportUnknownVariableType]
        raise TaskError(f"{place}, field 'reference': is {reference!r}; give a list of texts in agent order")
    return TaskItem(
        id=_identity(row, place, columns, default_id),
        prompt=values["prompt"],
        split=_split(row, place, columns),
        reference=tuple(reference),  # pyright: ignore[reportUnknownArgumentType]
        fields={name: text for name, text in values.items() if name != "prompt"},
    )


def _text(row: Row, name: str, place: str, columns: Columns, required: tuple[str, ...]) -> str:
    """Return the text of a required field, found under its mapped or its own name."""
    column = columns.find(name, row)
    if column not in row:
        raise TaskError(
            f"{place}: field {columns.wanted(name)} is missing; the row has {', '.join(map(repr, row)) or 'nothing'}. "
            f"This task needs {', '.join(required)}; map another name with --field {name}=NAME "
            f"(in Python: fields={{'{name}': 'NAME'}})"
        )
    value = row[column]
    if not isinstance(value, str):
        raise TaskError(f"{place}, field {column!r}: is a {type(value).__name__} ({value!r:.60}); give text")
    if not value.strip():
        raise TaskError(f"{place}, field {column!r}: is empty; give it text or remove the row")
    return value


def _identity(row: Row, place: str, columns: Columns, default: str) -> str:
    for name in _ID_FIELDS:
        column = columns.find(name, row)
        if column in row:
            value = row[column]
            if isinstance(value, float) and value.is_integer():  # an integer column with absent values has floats
                value = int(value)
            if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
                raise TaskError(f"{place}, field {column!r}: is {value!r}; give a text or an integer")
            return str(value)
    return default


def _split(row: Row, place: str, columns: Columns) -> str:
    value = row.get(columns.find("split", row), "")
    if value not in ("", *SPLITS[:2]):
        raise TaskError(f"{place}, field 'split': is {value!r}; give 'train' or 'test'")
    return str(value)


def _select(items: tuple[TaskItem, ...], split: str | None, place: str) -> tuple[TaskItem, ...]:
    if not items:
        raise TaskError(f"{place}: no rows; give at least one")
    with_split = sum(bool(item.split) for item in items)
    if with_split not in (0, len(items)):
        missing = next(item.id for item in items if not item.split)
        raise TaskError(
            f"{place}: row {missing!r} has no split although other rows have one; give every row a split, or none"
        )
    if split == "all" or (split is None and not with_split):
        return items
    wanted = split or "train"
    tested = _test_prompts(items)
    chosen = tuple(
        item for item in items if (item.split if with_split else ("train", "test")[item.prompt in tested]) == wanted
    )
    if not chosen:
        raise TaskError(f"{place}: split {wanted!r} has none of the {len(items)} rows; {ALL_ROWS}")
    return chosen


def _test_prompts(items: Sequence[TaskItem]) -> set[str]:
    """Return the prompts of the test split of rows without a split; of several prompts, at least one and not all."""
    prompts = {item.prompt for item in items}
    tested = {prompt for prompt in prompts if _hash(prompt) % 5 == 0}
    if len(prompts) > 1 and not tested:
        return {min(prompts, key=_hash)}
    return tested - {max(prompts, key=_hash)} if len(prompts) > 1 and tested == prompts else tested


def split_of(item: TaskItem) -> str:
    """Return the split of an item; if it has none, "test" for a fifth of prompts by their hash, else "train"."""
    return item.split or ("test" if _hash(item.prompt) % 5 == 0 else "train")


def _hash(prompt: str) -> int:
    digest = hashlib.blake2b(prompt.encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def check_options(options: Mapping[str, Any]) -> None:
    """Raise KeyError if an option of `reset` looks like a misspelt `task_id` or `index`."""
    for key in options:
        if key not in _CHOICES and (meant := difflib.get_close_matches(str(key), _CHOICES, n=1)):
            raise UnknownNameError(f"reset takes no option {key!r}; did you mean {meant[0]}?")


def named_item(items: Sequence[TaskItem], options: Mapping[str, Any]) -> TaskItem | None:
    """Return the item that the options of `reset` name by `task_id` or `index`; None if they name none.

    Raises:
        KeyError: The id does not exist.
        IndexError: The index does not exist.
    """
    if "task_id" in options:
        wanted = options["task_id"]
        for item in items:
            if item.id == wanted:
                return item
        raise UnknownNameError(f"no task {wanted!r} among {len(items)}; {nearest(str(wanted), (i.id for i in items))}")
    if "index" not in options:
        return None
    index = options["index"]
    position = operator.index(index) if hasattr(index, "__index__") else -1
    if not 0 <= position < len(items):
        raise IndexError(f"task index {index!r} is not in 0..{len(items) - 1}; give an integer of this range")
    return items[position]


def item_as_json(item: TaskItem) -> dict[str, Any]:
    """Return a task as plain values, with its references."""
    values = {part.name: getattr(item, part.name) for part in dataclasses.fields(item)}
    return values | {"reference": list(item.reference), "fields": dict(item.fields)}


def item_of(values: Mapping[str, Any]) -> TaskItem:
    """Return the task of plain values; the inverse of `item_as_json`."""
    return TaskItem(values["id"], values["prompt"], values["split"], tuple(values["reference"]), dict(values["fields"]))
