"""Safe reading of files from other people: run folders, traces, checkpoints and task files.

Only regular files are opened (links are followed), and only up to a number of bytes: a pipe would block, and a device
may have no end. The content is checked against the expected type. Every failure is a `FileError` that names the file,
the problem and the remedy.
"""

from __future__ import annotations

import functools
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pydantic

T = TypeVar("T")
LONGEST = 1 << 26  # bytes of a JSON file, or of one line of a JSONL file
LARGEST = 1 << 30  # bytes of a file whose lines are all kept in memory


class FileError(ValueError):
    """A file that cannot be read or written; the message has its path, the reason and the remedy."""


# --- opening ----------------------------------------------------------------------------------------------------------


def is_there(path: Path) -> bool:
    """Return whether a path exists; True for a broken link."""
    return os.path.lexists(path)


def open_file(path: Path, largest: int | None = None) -> BinaryIO:
    """Open a regular file for reading; links are followed.

    Args:
        path: Path of the file.
        largest: Largest allowed size in bytes; None: any size.

    Raises:
        FileError: The file is missing, unreadable, not a regular file, or too large.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileError(f"{str(path)!r} is not a regular file; remove it, or give another path")
        file = path.open("rb")
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be read ({_reason(error)}); give a regular file") from None
    if largest is not None and (size := os.fstat(file.fileno()).st_size) > largest:
        file.close()
        raise FileError(
            f"{str(path)!r} has {size / 1e6:,.0f} MB, and the limit is {largest / 1e6:,.0f} MB; give a smaller file"
        )
    return file


def open_to_append(path: Path) -> BinaryIO:
    """Open a file for reading and appending, and create it if it is missing; links are not followed.

    Raises:
        FileError: The path is a link, which could lead to any file of this user, or it is not a regular file.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FileError(f"{str(path)!r} is a link or not a regular file; remove it, or give another folder")
    try:
        return path.open("a+b")
    except PermissionError as error:
        raise FileError(f"{str(path)!r} cannot be written ({_reason(error)}); give another folder") from None


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


# --- reading ----------------------------------------------------------------------------------------------------------


def read_bytes(path: Path, largest: int = LONGEST) -> bytes:
    """Return the content of a file; raise FileError as `open_file` does."""
    with open_file(path, largest) as file:
        return file.read(largest)


def read_text(path: Path, largest: int = LONGEST) -> str:
    """Return the text of a UTF-8 file without a byte order mark; raise FileError, for example if it is not UTF-8."""
    try:
        return read_bytes(path, largest).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{str(path)!r} is not UTF-8 text ({error}); convert it, or give another file") from None


def read_json(path: Path, kind: type[T]) -> T:
    """Return the content of a JSON file as a `kind`, see `conform`; raise FileError."""
    return conform(parse(read_bytes(path), str(path)), kind, str(path))


def find_json(path: Path, kind: type[T]) -> T | None:
    """Return the result of `read_json`, or None if the file does not exist."""
    return read_json(path, kind) if is_there(path) else None


def iterate_lines(path: Path, largest: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line; raise FileError as `open_file` does."""
    with open_file(path, largest) as file:
        number = 0
        while line := file.readline(LONGEST + 1):
            number += 1
            if len(line) > LONGEST:
                raise FileError(f"{path}, line {number}: it is longer than {LONGEST / 1e6:,.0f} MB; remove it")
            yield number, line


def parse(text: bytes | str, where: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        FileError: The text is not JSON; the message begins with `where`.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # includes very long numbers and deeply nested brackets
        raise FileError(f"{where}: it is no JSON ({error}); correct or remove it") from None


def conform(value: Any, kind: type[T], where: str) -> T:
    """Return a plain value as a `kind`: a TypedDict, a dataclass, a configuration, `dict[str, float]`, ...

    Raises:
        FileError: A field is missing or has another type; the message begins with `where` and names the field.
    """
    try:
        return _adapter(kind).validate_python(value)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = f", field {'.'.join(map(str, loc))}" if (loc := first["loc"]) else ""
        message = first["msg"].removeprefix("Value error, ")
        raise FileError(f"{where}{place}: {message} ({first['input']!r:.60}); correct or remove it") from None


@functools.cache
def _adapter(kind: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(kind)
