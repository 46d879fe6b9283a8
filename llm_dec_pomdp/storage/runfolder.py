"""The folder of a run: its lock, its status and its logs.

Only one process writes to a folder at a time: it holds a lock (flock) on the file `lock`, which names its pid and host.
The kernel releases the lock when the process ends. `status.json` says "running", "interrupted", "failed" (with the
reason) or "done". After a failure, `traceback.txt` has the full traceback.
Logs are JSONL files: each line is on disk before the run goes on, and a resumed run first cuts off the lines that come
after its checkpoint.
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
    """A run folder that cannot be used; the message names it and says what to do."""


# --- one writer -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(folder: Path) -> Generator[None]:
    """Be the only writer of a folder; raise RunFolderError where another process is."""
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
    """Return whether a process writes to a folder."""
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
    """Lock a run folder, and write its status however the work ends.

    Args:
        folder: A new or an empty folder, unless `resume`.
        resume: Go on with the run that is there.

    Raises:
        FileExistsError: The folder holds something and `resume` is off.
        RunFolderError: There is no run to resume, or another process is writing to it.
    """
    if resume and not (folder / STATUS).is_file():
        raise RunFolderError(f"{str(folder)!r} holds no run to resume ({STATUS} is missing); give the folder of one")
    if not resume:
        _refuse_content(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if not resume:
            _refuse_content(folder)  # again: a run may have begun and ended before the lock
        for left in folder.rglob(".*.json-*"):  # of a process that was killed while it wrote
            left.unlink()
        (folder / TRACEBACK).unlink(missing_ok=True)
        _note(folder, "running")
        try:
            with before_the_end(lambda: _note(folder, "interrupted", "a second signal ended it at once")):
                yield
        except Interrupted as stop:
            _note(folder, "interrupted", stop.reason)
            raise
        except BaseException as error:
            with contextlib.suppress(OSError):  # on a full disk, the first error is the one to see
                _note(folder, "failed", summary(error))
                if isinstance(error, Exception):
                    write_traceback(folder, error)
            raise
        _note(folder, "done")


def write_traceback(folder: Path, error: Exception) -> None:
    """Write the full traceback of an exception to a folder, and add a note with its path to one of user code."""
    replace(folder / TRACEBACK, "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace"))
    if is_of_user(error):
        error.add_note(f"full traceback: {folder / TRACEBACK}")


def _refuse_content(folder: Path) -> None:
    if not folder.exists() or not {path.name for path in folder.iterdir()} - {LOCK}:
        return
    if is_locked(folder):
        _refuse(folder)
    go_on = f", or go on with the run in it: --resume {folder}" if (folder / STATUS).is_file() else ""
    raise FileExistsError(f"{str(folder)!r} is not empty; give a new folder with --out{go_on}")


@dataclass(frozen=True, slots=True)
class _Status:
    """What `status.json` says."""

    state: Status
    reason: str
    time: float


def _note(folder: Path, state: Status, reason: str = "") -> None:
    replace_json(folder / STATUS, asdict(_Status(state, reason, time.time())))


def read_status(folder: Path) -> tuple[Status, str, float] | None:
    """State, reason and time of the last change of a run; None when the folder holds none.

    A run that says running and has no living process was killed.

    Raises:
        FileError: What is there is no status.
    """
    if (status := find_json(folder / STATUS, _Status)) is None:
        return None
    if status.state == "running" and not is_locked(folder):
        return "failed", "the process was killed", status.time
    return status.state, status.reason, status.time


# --- logs -------------------------------------------------------------------------------------------------------------


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Add a line to a JSONL file, durably. Numbers that are not finite become null."""
    with open_to_append(path) as file:
        file.write(masked(json.dumps(finite(record)).encode()) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path, kind: type[T] = dict[str, Any]) -> Sequence[T]:
    """The records of a JSONL file, without an unfinished last line; none when it does not exist.

    Args:
        path: Of the file.
        kind: What each of them is, see `reading.conform`.

    Raises:
        FileError: A line is something else; the message names it.
    """
    return list(iterate_records(path, kind, LARGEST))


def iterate_records(path: Path, kind: type[T] = dict[str, Any], largest: int | None = None) -> Iterator[T]:
    """The records of `read_lines`, one at a time, of a file of any size or of `largest` bytes at most."""
    if is_there(path):
        for number, line in iterate_lines(path, largest):
            if line.endswith(b"\n") and line != b"\n":
                where = f"{path}, line {number}"
                yield conform(parse(line, where), kind, where)


def cut(path: Path, key: str, last: int) -> None:
    """Cut off a JSONL file at the first record whose `key` is beyond `last`, or that is unfinished."""
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
    """A nested value with None for every number that is not finite."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in cast("Sequence[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def new_run_folder(name: str, parent: Path = Path("runs")) -> Path:
    """A folder name that is not taken yet: `runs/<name>-<date>-<time>`."""
    stem = f"{clean(name, '._-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    candidates = (parent / (stem + suffix) for suffix in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(candidate for candidate in candidates if not candidate.exists())
