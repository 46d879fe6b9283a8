"""Files that others may have made: every reader of run folders, traces, checkpoints and task files reads them by this.

Only regular files are opened, also through links, and only up to a limit of bytes; a pipe would block and a device may
have no end. The content is checked against the type that was asked for. A file that fails is a `FileError`, whose
message names the file, the problem and the remedy.
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
LONGEST = 1 << 26  # bytes of what is read at once: a JSON file, or a line of one with many
LARGEST = 1 << 30  # bytes of a file all of whose lines are kept


class FileError(ValueError):
    """A file that is not read or written; the message names it, says why, and what to do."""


# --- opening ----------------------------------------------------------------------------------------------------------


def is_there(path: Path) -> bool:
    """Whether a name exists, be it a file, or a link that leads nowhere."""
    return os.path.lexists(path)


def open_file(path: Path, largest: int | None = None) -> BinaryIO:
    """Open a regular file for reading, also through links.

    Args:
        path: Where it is.
        largest: Most bytes that it may have.

    Raises:
        FileError: It is missing, may not be read, is no regular file, or larger.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileError(f"{str(path)!r} is not a regular file; remove it, or give another")
        file = path.open("rb")
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be read ({_reason(error)}); give a regular file") from None
    if largest is not None and (size := os.fstat(file.fileno()).st_size) > largest:
        file.close()
        raise FileError(
            f"{str(path)!r} has {size / 1e6:,.0f} MB, and at most {largest / 1e6:,.0f} MB are read; give a smaller file"
        )
    return file


def open_to_append(path: Path) -> BinaryIO:
    """Open a file for reading and for writing at its end, and create it where there is none; links are not followed.

    Raises:
        FileError: It is a link, which may lead to any file of whoever writes, or no regular file.
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
    """The content of a file; raises FileError, see `open_file`."""
    with open_file(path, largest) as file:
        return file.read(largest)


def read_text(path: Path, largest: int = LONGEST) -> str:
    """The text of a file, without a byte order mark; raises FileError also where it is not UTF-8."""
    try:
        return read_bytes(path, largest).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{str(path)!r} is not UTF-8 text ({error}); convert it, or give another file") from None


def read_json(path: Path, kind: type[T]) -> T:
    """The content of a JSON file as a `kind`, see `conform`; raises FileError."""
    return conform(parse(read_bytes(path), str(path)), kind, str(path))


def find_json(path: Path, kind: type[T]) -> T | None:
    """What `read_json` reads; None where there is no such name."""
    return read_json(path, kind) if is_there(path) else None


def iterate_lines(path: Path, largest: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers, one at a time; raises FileError, see `open_file`."""
    with open_file(path, largest) as file:
        number = 0
        while line := file.readline(LONGEST + 1):
            number += 1
            if len(line) > LONGEST:
                raise FileError(f"{path}, line {number}: it is longer than {LONGEST / 1e6:,.0f} MB; remove it")
            yield number, line


def parse(text: bytes | str, where: str) -> Any:
    """The value of a JSON text.

    Raises:
        FileError: It is none; the message begins with `where`.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # endless numbers and brackets too
        raise FileError(f"{where}: it is no JSON ({error}); correct or remove it") from None


def conform(value: Any, kind: type[T], where: str) -> T:
    """A plain value as a `kind`: a TypedDict, a dataclass, a configuration, `dict[str, float]`, ...

    Raises:
        FileError: Something has another type or is missing; the message begins with `where` and names the field.
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
