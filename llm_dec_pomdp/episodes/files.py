"""Files of traces: one trace per line, written atomically and read one at a time.

The texts are in the traces, or in a content store next to the file (each text once, under its SHA-256), or left out.
The store is an SQLite file, so writing and reading do not need memory for all of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from ..registries import nearest
from ..storage.files import replacing
from ..storage.reading import LONGEST, FileError, is_there, iterate_lines, open_file, parse, read_bytes
from ..storage.secrets import masked
from ..types import Episode, TaskItem
from .header import Header, TraceError, digest, encode, plain_text
from .record import Trace, from_episode

Texts = Literal["inline", "hashed", "none"]
_AT_ONCE = 200  # texts written to a store at once
_BUFFER = 1 << 20  # bytes written to a file at once
_TOKENS = ("prompt_ids", "token_ids", "logprobs")
_REFERENCES = {"content": "content_ref", "thought": "thought_ref"}  # text field -> field with its reference


class ContentStore:
    """A store of texts by their references; use it as a context manager.

    Args:
        path: An SQLite file.
        new: Create the file, for `put`; else open an existing file, for `get`.

    Raises:
        TraceError: The file is missing or damaged.
    """

    def __init__(self, path: Path, *, new: bool = False) -> None:
        if not new:
            _refuse_store(path)
        self.path = path
        self._new: dict[bytes, bytes] = {}  # by SHA-256
        mode = "rwc" if new else "ro"
        self._file = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)
        if new:
            self._file.execute("PRAGMA journal_mode = OFF")  # the file is renamed when it is complete
            self._file.execute("PRAGMA synchronous = OFF")
            self._file.execute("CREATE TABLE content (digest BLOB PRIMARY KEY, text BLOB)")
        else:
            self._refuse_program()

    def __enter__(self) -> ContentStore:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._new:
            self._flush()
        self._file.commit()
        self._file.close()

    def _refuse_program(self) -> None:
        """Raise TraceError unless the content is a plain table: a view is a program that may not end."""
        query = "SELECT type FROM sqlite_master WHERE name = 'content'"
        try:
            [(kind,)] = self._file.execute(query).fetchall() or [("",)]
        except (sqlite3.Error, ValueError) as error:
            kind = str(error)
        if kind != "table":
            self._file.close()
            raise TraceError(f"{str(self.path)!r} is damaged (no table, {kind!r}); export the traces again")

    def put(self, text: str) -> str:
        """Store a text and return its reference."""
        content = masked(text.encode("utf-8", "surrogatepass"))
        key = hashlib.sha256(content)
        self._new[key.digest()] = content
        if len(self._new) >= _AT_ONCE:
            self._flush()
        return f"sha256:{key.hexdigest()}"

    def _flush(self) -> None:
        self._file.executemany("INSERT OR IGNORE INTO content VALUES (?, ?)", self._new.items())
        self._new.clear()

    def get(self, reference: str) -> str | None:
        """Return the text of a reference; None if it is missing or was changed.

        Raises:
            TraceError: The file is damaged.
        """
        try:
            key = bytes.fromhex(reference.removeprefix("sha256:"))
        except ValueError:
            return None
        try:
            query = "SELECT text FROM content WHERE digest = ? AND length(text) <= ?"
            row = self._file.execute(query, (key, LONGEST)).fetchone()
            text = row[0].decode("utf-8", "surrogatepass") if row else None
        except (sqlite3.Error, UnicodeDecodeError, AttributeError) as error:
            raise TraceError(f"{str(self.path)!r} is damaged ({error}); export the traces again") from error
        return text if text is not None and digest(text) == reference else None


def _refuse_store(path: Path) -> None:
    if not is_there(path):
        raise TraceError(f"{str(path)!r}, the content store of the traces, is missing; copy it next to the traces")
    open_file(path).close()


def store_of(path: Path) -> Path:
    """Return the path of the content store of a file of traces."""
    return Path(f"{path}.content.sqlite")


# --- writing ----------------------------------------------------------------------------------------------------------


class TraceWriter:
    """A writer of traces; use it as a context manager. The file appears when the block ends without an error.

    Args:
        path: Path of a file that does not exist yet.
        texts: "inline": in the traces; "hashed": as references into a content store next to the file; "none": left out.
        token_ids: Keep token ids and log-probabilities, if the traces have them.

    Attributes:
        count: Number of written traces.

    Raises:
        FileExistsError: The file exists.
        ValueError: `texts` is unknown.
    """

    def __init__(self, path: Path, texts: Texts = "inline", *, token_ids: bool = False) -> None:
        if texts not in get_args(Texts):
            raise ValueError(f"texts is {texts!r}, which does not exist; {nearest(texts, get_args(Texts))}")
        if path.exists():
            raise FileExistsError(f"{str(path)!r} exists already; give a new file, or remove it")
        self.path, self.count = path, 0
        self._texts, self._token_ids = texts, token_ids
        self._open = ExitStack()
        self._file: BinaryIO
        self._store: ContentStore | None = None

    def __enter__(self) -> TraceWriter:
        begun = tuple(f".{path.name}-" for path in (self.path, store_of(self.path)))
        for left in self.path.parent.iterdir():
            if left.name.startswith(begun):  # left by a process that was killed
                left.unlink(missing_ok=True)
        with ExitStack() as opening:
            place = opening.enter_context(replacing(self.path))
            self._file = opening.enter_context(place.open("wb", buffering=_BUFFER))
            if self._texts == "hashed":  # entered last, so that it is renamed before the traces
                place = opening.enter_context(replacing(store_of(self.path)))
                self._store = opening.enter_context(ContentStore(place, new=True))
            self._open = opening.pop_all()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._open.__exit__(*exc)

    def write_episode(self, episode: Episode, header: Header, item: TaskItem) -> None:
        """Write an episode; see `from_episode`."""
        self.write(from_episode(episode, header, item, token_ids=self._token_ids))

    def write(self, trace: Trace) -> None:
        """Write a trace; the argument is not changed.

        Raises:
            ValueError: A number is not finite.
        """
        self._file.write(masked(encode({**trace, "events": [self._kept(e) for e in trace["events"]]}).encode("ascii")))
        self._file.write(b"\n")
        self.count += 1

    def _kept(self, event: dict[str, Any]) -> dict[str, Any]:
        if not self._token_ids and "token_ids" in event:
            event = {key: value for key, value in event.items() if key not in _TOKENS}
        if self._texts == "inline":
            return event
        kept: dict[str, Any] = {}
        for key, value in event.items():
            if key not in _REFERENCES:
                kept[key] = value
            elif self._store is not None:
                kept[_REFERENCES[key]] = self._store.put(plain_text(value))
        return kept


def write(traces: Iterable[Trace], path: Path, texts: Texts = "inline", *, token_ids: bool = False) -> int:
    """Write traces to a file, one at a time, and return their number. See `TraceWriter`."""
    with TraceWriter(path, texts, token_ids=token_ids) as writer:
        for trace in traces:
            writer.write(trace)
    return writer.count


# --- evaluations of a cell --------------------------------------------------------------------------------------------


def evaluation_file(cell: Path, steps: int) -> Path:
    """Return the path of the episodes of a cell's evaluation after so many training steps."""
    return cell / "episodes" / f"step-{steps}.jsonl"


def unfinished_evaluation(cell: Path, steps: int) -> tuple[Path, Path]:
    """Return the paths of an unfinished evaluation: its finished episodes, and later answers of servers."""
    return cell / "episodes" / f"part-{steps}.jsonl", cell / "episodes" / f"answers-{steps}.jsonl"


def evaluations(cell: Path) -> dict[int, Path]:
    """Return the stored files of a cell's evaluations, by training steps, in ascending order."""
    paths = (cell / "episodes").glob("step-*.jsonl")
    named = ((re.fullmatch(r"step-(\d{1,9})\.jsonl", path.name), path) for path in paths)
    return dict(sorted((int(match[1]), path) for match, path in named if match))


def last_evaluation(cell: Path) -> Path | None:
    """Return the file of a cell's last evaluation; None if there is none."""
    return next(reversed(evaluations(cell).values()), None)


# --- reading ----------------------------------------------------------------------------------------------------------


def read(path: Path) -> Iterator[Trace]:
    """Yield the traces of a file one at a time; the file has a trace per line, or is one JSON document.

    Raises:
        FileError: The file is not a regular file, or a line is not JSON, too long or too deep; the message names it.
        TraceError: A line is not a JSON object; the message names the line.
    """
    lines = iterate_lines(path)
    _, first = next(lines, (1, b""))
    try:
        trace = _parsed(first, f"{path}, line 1")
    except FileError:
        if next(lines, None) is None:  # the file has a single line
            raise
        yield _parsed(read_bytes(path), str(path))
        return
    yield trace
    for number, line in lines:
        if line.strip():
            yield _parsed(line, f"{path}, line {number}")


def _parsed(text: bytes, where: str) -> Trace:
    value = parse(text, where)
    if not isinstance(value, dict):
        raise TraceError(f"{where}: it is a {type(value).__name__} ({value!r:.40}); a trace is a JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]


def resolve(trace: Trace, store: ContentStore) -> Trace:
    """Return a trace with its texts in place of their references.

    Raises:
        TraceError: The store lacks a text; the message names the event.
    """

    def whole(event: dict[str, Any]) -> dict[str, Any]:
        for field, refers in _REFERENCES.items():
            if (reference := event.get(refers)) is None:
                continue
            if (text := store.get(reference)) is None:
                raise TraceError(
                    f"event {event['id']!r}, field {refers}: {reference!r:.80} is not in {str(store.path)!r}"
                )
            event = {key: value for key, value in event.items() if key != refers}
            event[field] = text if event["type"] == "message" else parse(text, f"event {event['id']!r}")
        return event

    return {**trace, "events": [whole(event) for event in trace["events"]]}


def read_whole(path: Path) -> Iterator[Trace]:
    """Yield the traces of a file with the texts of its content store, if there is one."""
    with contextlib.ExitStack() as opened:
        place = store_of(path)
        store = opened.enter_context(ContentStore(place)) if is_there(place) else None
        for trace in read(path):
            yield resolve(trace, store) if store is not None else trace
