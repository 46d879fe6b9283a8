"""Exceptions of user code: detection, place, and the task that was played.

A frame belongs to the user if its file is outside of this package, the standard library and `site-packages`.
"""

from __future__ import annotations

import linecache
import os
import sysconfig
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Literal, NamedTuple

PACKAGE = __name__.partition(".")[0]
_STANDARD = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib"))
_HERE = f"{Path(__file__).parent}{os.sep}"
_INSTALLED = {"site-packages", "dist-packages"}
_LONGEST = 300  # characters of an action in a note
_TASK = "task "


class Frame(NamedTuple):
    """One level of a traceback; plain values, so that it can be sent to another process."""

    file: str
    line: int
    function: str
    code: str
    owner: Literal["user", "package", "library", "standard"]

    @property
    def place(self) -> str:
        """The file (relative if it is below the working folder), line and function."""
        path = Path(self.file)
        file = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return f"{file}:{self.line}, in {self.function}"


class WorkerTraceback(Exception):  # noqa: N818  # the cause of an error, shown above it
    """The traceback of an exception in a worker process, as the `__cause__` of the exception in this process."""

    def __init__(self, text: str, frames: tuple[Frame, ...] = ()) -> None:
        super().__init__(text, frames)
        self.frames = frames

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def frames(error: BaseException) -> tuple[Frame, ...]:
    """Return the frames from the first frame of this package on, then those of the worker process that raised it."""
    found = [_frame(level, line) for level, line in traceback.walk_tb(error.__traceback__)]
    first = next((i for i, frame in enumerate(found) if frame.owner == "package"), 0)
    elsewhere = error.__cause__.frames if isinstance(error.__cause__, WorkerTraceback) else ()
    if isinstance(error, SyntaxError) and error.filename and not elsewhere:  # in an imported file
        there = Frame(error.filename, error.lineno or 0, "<module>", (error.text or "").strip(), "user")
        elsewhere = (there,) if _owner(error.filename, "") == "user" else ()
    return (*found[first:], *elsewhere)


def _frame(level: FrameType, line: int) -> Frame:
    file, function = level.f_code.co_filename, level.f_code.co_name
    owner = _owner(file, str(level.f_globals.get("__name__", "")))
    code = linecache.getline(file, line, level.f_globals).strip()
    return Frame(file if file.startswith("<") else str(Path(file).absolute()), line, function, code, owner)


def _owner(file: str, module: str) -> Literal["user", "package", "library", "standard"]:
    if f"{module}.".startswith(f"{PACKAGE}.") or file.startswith(_HERE):  # also generated code of dataclasses
        return "package"
    if _INSTALLED & set(Path(file).parts):
        return "library"
    return "standard" if file.startswith(("<frozen ", *_STANDARD)) else "user"


def is_of_user(error: BaseException) -> bool:
    """Return whether an exception belongs to user code.

    This is the case if its traceback has a frame outside of this package, the standard library and `site-packages`, and
    its class is not defined in this package. `KeyboardInterrupt` and `SystemExit` never belong to user code.
    """
    own = _has_own_class(error) or not isinstance(error, Exception)  # KeyboardInterrupt, SystemExit
    return not own and any(frame.owner == "user" for frame in frames(error))


def is_sentence(error: BaseException) -> bool:
    """Return whether the message of an exception is a sentence of this package, to be shown without a traceback.

    This is the case if its class is defined in this package. It is also the case if its traceback has no frame of user
    code, and its last frame outside of the standard library does not belong to another library.
    """
    owners = [frame.owner for frame in frames(error) if frame.owner != "standard"]
    return _has_own_class(error) or ("user" not in owners and owners[-1:] != ["library"])


def _has_own_class(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] == PACKAGE


def note_episode(error: Exception, task: str, actions: Mapping[str, str]) -> None:
    """Add the task and the joint action as notes to an exception, unless it has a task already."""
    if not any(note.startswith(_TASK) for note in getattr(error, "__notes__", ())):
        error.add_note(f"{_TASK}{task!r}")
        for agent, text in actions.items():
            error.add_note(f"{agent} acted {shortened(text)}")


def shortened(text: str) -> str:
    """Return a text as a Python literal; of a long text only the beginning and its length."""
    return repr(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}... ({len(text)} characters)"


def where(error: BaseException) -> str:
    """Return the innermost user frame and the task: "haggle.py:5, in score, task 'h51'"; "" if neither is known."""
    users = [frame for frame in frames(error) if frame.owner == "user"]
    task = [note for note in getattr(error, "__notes__", ()) if note.startswith(_TASK)]
    return ", ".join([*(frame.place for frame in users[-1:]), *task[:1]])


def summary(error: BaseException) -> str:
    """Return the class and message of an exception in one line, with the place if user code raised it."""
    place = where(error) if is_of_user(error) else ""
    return f"{type(error).__name__}: {error}" + (f" ({place})" if place else "")


def user_traceback(error: BaseException) -> str:
    """Return the user frames of the traceback of an exception, with its notes."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    lines: list[str] = []
    if earlier is not None and any(frame.owner == "user" for frame in frames(earlier)):
        lines += [user_traceback(earlier), "", "This exception caused, or was handled during, the following one:", ""]
    lines.append("Traceback of user code (most recent call last):")
    for frame in (frame for frame in frames(error) if frame.owner == "user"):
        lines += [f'  File "{frame.file}", line {frame.line}, in {frame.function}']
        lines += [f"    {frame.code}"] if frame.code else []
    return "\n".join([*lines, *(line.rstrip("\n") for line in traceback.format_exception_only(error))])
