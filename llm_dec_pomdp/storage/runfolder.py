"""The folder of a run: its lock, its status and its logs.

Only one process writes to a folder at a time: it holds a lock (flock) on the file `lock`, which names its pid and host.
The kernel releases the lock when the process ends. `status.json` contains "running", "interrupted", "failed" (with the
reason) or "done". After a failure, `traceback.txt` has the full traceback. Logs are JSONL files. Each line is on disk
before the run continues. A resumed run first removes the lines after its checkpoint.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import platform
import time
import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from ..user_code import is_of_user, summary
from .files import clean, replace, replace_json
from .reading import (
    LARGEST,
    FileError,
    conform,
    find_json,
    is_there,
    iterate_lines,
    open_file,
    open_to_append,
    parse,
    read_text,
)
from .secrets import masked
from .signals import Interrupted, before_the_end

LOCK, STATUS, TRACEBACK = "lock", "status.json", "traceback.txt"
Status = Literal["running", "interrupted", "failed", "done"]
T = TypeVar("T")


class RunFolderError(OSError):
    """A run folder that cannot be used; the message has its path and the remedy."""


# --- one writer -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock a folder for writing; raise RunFolderError if another process has locked it."""
    with open_to_append(folder / LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _refuse(folder)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}".encode())
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def is_locked(folder: Path) -> bool:
    """Return whether a process has locked a folder for writing."""
    try:
        with open_file(folder / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileError:
        return False
    except OSError:
        return True
    return False


def _refuse(folder: Path) -> None:
    who = read_text(folder / LOCK)[:100] or "another process"
    raise RunFolderError(f"{str(folder)!r} is being written by {who}; wait for it, stop it, or give another folder")


# --- a run ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_run(folder: Path, *, resume: bool = False) -> Generator[None]:
    """Lock a run folder, and write its status: running during the block, then done, interrupted or failed.

    Args:
        folder: A new or empty folder, unless `resume`.
        resume: Continue the run in the folder.

    Raises:
        FileExistsError: The folder is not empty and `resume` is False.
        RunFolderError: There is no run to resume, or another process writes to the folder.
    """
    if resume and not (folder / STATUS).is_file():
        raise RunFolderError(f"{str(folder)!r} holds no run to resume ({STATUS} is missing); give the folder of a run")
    if not resume:
        _refuse_content(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if not resume:
            _refuse_content(folder)  # again: another run may have started and ended before the lock
        for left in folder.rglob(".*.json-*"):  # left by a process that was killed while writing
            left.unlink()
        (folder / TRACEBACK).unlink(missing_ok=True)
        _note(folder, "running")
        try:
            with before_the_end(lambda: _note(folder, "interrupted", "a second signal ended the process")):
                yield
        except Interrupted as stop:
            _note(folder, "interrupted", stop.reason)
            raise
        except BaseException as error:
            with contextlib.suppress(OSError):  # on a full disk, show the first error
                _note(folder, "failed", summary(error))
                if isinstance(error, Exception):
                    write_traceback(folder, error)
            raise
        _note(folder, "done")


def write_traceback(folder: Path, error: Exception) -> None:
    """Write the traceback of an exception to a folder; for an error in user code, add a note with its path."""
    replace(folder / TRACEBACK, "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace"))
    if is_of_user(error):
        error.add_note(f"full traceback: {folder / TRACEBACK}")


def _refuse_content(folder: Path) -> None:
    if not folder.exists() or not {path.name for path in folder.iterdir()} - {LOCK}:
        return
    if is_locked(folder):
        _refuse(folder)
    go_on = f", or continue the run in it with --resume {folder}" if (folder / STATUS).is_file() else ""
    raise FileExistsError(f"{str(folder)!r} is not empty; give a new folder with --out{go_on}")


@dataclass(frozen=True, slots=True)
class _Status:
    """The content of `status.json`; `time` is in seconds since the epoch."""

    state: Status
    reason: str
    time: float


def _note(folder: Path, state: Status, reason: str = "") -> None:
    replace_json(folder / STATUS, asdict(_Status(state, reason, time.time())))


def read_status(folder: Path) -> tuple[Status, str, float] | None:
    """Return state, reason and time of the last change of a run; None if the folder has no run.

    A run with the state "running" and without a living process was killed: its state is "failed".

    Raises:
        FileError: The status file cannot be read.
    """
    if (status := find_json(folder / STATUS, _Status)) is None:
        return None
    if status.state == "running" and not is_locked(folder):
        return "failed", "the process was killed", status.time
    return status.state, status.reason, status.time


# --- logs -------------------------------------------------------------------------------------------------------------


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Append a line to a JSONL file and fsync it. Numbers that are not finite become null."""
    with open_to_append(path) as file:
        file.write(masked(json.dumps(finite(record)).encode()) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path, kind: type[T] = dict[str, Any]) -> Sequence[T]:
    """Return the records of a JSONL file, without an unfinished last line; none if the file does not exist.

    Args:
        path: Path of the file.
        kind: Type of each record, see `reading.conform`.

    Raises:
        FileError: A line has another type; the message names the line.
    """
    return list(iterate_records(path, kind, LARGEST))


def iterate_records(path: Path, kind: type[T] = dict[str, Any], largest: int | None = None) -> Iterator[T]:
    """Yield the records of `read_lines` one at a time; `largest` limits the size of the file in bytes."""
    if is_there(path):
        for number, line in iterate_lines(path, largest):
            if line.endswith(b"\n") and line != b"\n":
                where = f"{path}, line {number}"
                yield conform(parse(line, where), kind, where)


def cut(path: Path, key: str, last: int) -> None:
    """Truncate a JSONL file before the first record that is incomplete or whose `key` exceeds `last`."""
    if not is_there(path):
        return
    keep = 0
    for number, line in iterate_lines(path):
        where = f"{path}, line {number}"
        if not line.endswith(b"\n") or _number(line, key, where) > last:
            break
        keep += len(line)
    with open_to_append(path) as file:
        file.truncate(keep)
        os.fsync(file.fileno())


def _number(line: bytes, key: str, where: str) -> int:
    record = conform(parse(line, where), dict[str, Any], where)
    return conform(record.get(key), int, f"{where}, field {key}")


def finite(value: Any) -> Any:
    """Return a nested value with None in place of every number that is not finite."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in cast("Sequence[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def new_run_folder(name: str, parent: Path = Path("runs")) -> Path:
    """Return the path of a folder that does not exist yet: `runs/<name>-<date>-<time>`."""
    stem = f"{clean(name, '._-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    candidates = (parent / (stem + suffix) for suffix in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(candidate for candidate in candidates if not candidate.exists())
