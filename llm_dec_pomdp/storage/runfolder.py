"""The folder of a run: its lock, its status and its logs.

Only one process writes to a folder at a time. The file `lock` holds its pid, start time, boot id and host; the kernel
keeps the file locked until the process ends, after which another process may lock it. `status.json` says "running",
"interrupted", "failed" (with the reason) or "done". After a failure, `traceback.txt` has the full traceback.
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
from .reading import LARGEST, FileError, conform, find_json, is_there, iterate_lines, open_to_append, parse, read_json
from .secrets import masked
from .signals import Interrupted, before_the_end

LOCK, STATUS, TRACEBACK = "lock", "status.json", "traceback.txt"
Status = Literal["running", "interrupted", "failed", "done"]
T = TypeVar("T")


class RunFolderError(OSError):
    """A run folder that cannot be used; the message names it and says what to do."""


# --- one writer -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes to a folder."""

    pid: int
    started: str
    boot: str
    host: str

    @classmethod
    def current(cls) -> Holder:
        """This process."""
        return cls(os.getpid(), _start_of(os.getpid()), _boot_id(), platform.node())

    def lives(self) -> bool:
        """Whether that very process is running on this machine, since this boot."""
        if self.boot != _boot_id():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return _start_of(self.pid) == self.started


def _boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else ""


def _start_of(pid: int) -> str:
    """Start of a process in ticks since boot, since pids are reused; "" where there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state == "Z" else fields[18]


def read_holder(folder: Path) -> Holder | None:
    """The process that writes to a folder, or was killed while it did; None when none does."""
    try:
        return read_json(folder / LOCK, Holder)
    except FileError:
        return None


@contextlib.contextmanager
def locked(folder: Path) -> Generator[None]:
    """Be the only writer of a folder; raises RunFolderError where another process is."""
    path = folder / LOCK
    with open_to_append(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _refuse(folder)
        holder = read_holder(folder)
        if holder is not None and holder.lives() and holder != Holder.current():
            _refuse(folder)
        file.truncate(0)
        file.write(json.dumps(asdict(Holder.current())).encode())
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _refuse(folder: Path) -> None:
    holder = read_holder(folder)
    who = f"process {holder.pid} on {holder.host}" if holder else "another process"
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
    replace(folder / TRACEBACK, masked("".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")))
    if is_of_user(error):
        error.add_note(f"full traceback: {folder / TRACEBACK}")


def _refuse_content(folder: Path) -> None:
    if not folder.exists() or not {path.name for path in folder.iterdir()} - {LOCK}:
        return
    holder = read_holder(folder)
    if holder is not None and holder.lives():
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
    if status.state == "running":
        holder = read_holder(folder)
        if holder is None or not holder.lives():
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
