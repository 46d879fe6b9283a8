"""The trainer's side of one judge process: it sends a job and receives an answer, or the judge counts as lost.

A judge runs tests of task files, which may write anything in place of an answer. So size, time and form of each answer
are checked.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Generator
from dataclasses import asdict
from typing import Any, cast, get_args

from . import judge, spawn
from .jobs import Job, OutcomeName

GRACE = 10.0  # seconds beyond a job's wall limit after which a silent judge counts as lost
START = 20.0  # seconds that a judge may take to start
REST = 5.0  # seconds from the first byte of an answer to its last
READING = 10.0  # seconds that a judge may take to read a job
LONGEST = 1 << 24  # maximum size of an answer, in bytes
_NUMBERS = ("passed", "total", "cpu_seconds", "wall_seconds")
_LISTS = {"notes": {str}, "cases": {bool}, "shares": {int, float}, "tests": {str}}


class LostError(Exception):
    """A judge process that ended, stopped answering, or wrote something other than an answer."""


class TestsTooLongError(Exception):
    """The system killed the judge process (SIGXCPU): an operation of the tests did not return before its CPU limit."""


class Worker:
    """One judge process. An interrupted request ends it, since a late answer would be taken for the next one."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.over = False  # the process has ended
        self._process = spawn.start("judge", options, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin and self._process.stdout
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        with self._ending_if_interrupted():
            self.slowness = float(self._read(START)["slowness"])  # factor relative to the reference machine

    def run(self, job: Job) -> dict[str, Any]:
        """Return the verdict of the judge on a job; raise LostError or TestsTooLongError if there is none."""
        with self._ending_if_interrupted():
            try:
                if select.select([self._out], [], [], 0)[0]:  # it wrote without a request, or has ended
                    raise LostError
                self._write(judge.frame(asdict(job)))
                return well_formed(self._read(self.slowness * job.limits.wall_seconds + GRACE))
            except LostError:
                self.close()
                if self._process.returncode == -signal.SIGXCPU:
                    raise TestsTooLongError from None
                raise

    @contextlib.contextmanager
    def _ending_if_interrupted(self) -> Generator[None]:
        try:
            yield
        except BaseException:  # a signal handler may raise any exception at any point
            self.close()
            raise

    def _write(self, data: bytes) -> None:
        """Write a frame; a judge that does not read for `READING` seconds is lost."""
        left = memoryview(data)
        while left:
            if not select.select([], [self._in], [], READING)[1]:
                raise LostError
            try:
                left = left[os.write(self._in, left) :]
            except BrokenPipeError as error:
                raise LostError from error

    def _read(self, patience: float) -> Any:
        """Return the content of the next frame; it must begin within `patience` seconds and end within `REST` more."""
        first = self._exactly(1, patience)
        end = time.monotonic() + REST
        [length] = judge.HEADER.unpack(first + self._exactly(judge.HEADER.size - 1, REST))
        if length > LONGEST:
            raise LostError
        try:
            return json.loads(self._exactly(length, end - time.monotonic()))
        except (ValueError, RecursionError) as error:
            raise LostError from error

    def _exactly(self, count: int, seconds: float) -> bytes:
        data = bytearray()
        end = time.monotonic() + seconds
        while len(data) < count:
            ready, _, _ = select.select([self._out], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._out, count - len(data)) if ready else b""
            if not chunk:
                raise LostError
            data += chunk
        return bytes(data)

    def close(self) -> None:
        """End the judge, which ends its own processes."""
        self.over = True
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(OSError, ValueError):  # it has ended or is closed
            os.write(self._process.stdin.fileno(), judge.frame({}))
        self._process.stdin.close()
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def well_formed(answer: Any) -> dict[str, Any]:
    """Return the answer if it has all fields of a verdict; else raise LostError."""
    whole: dict[str, Any] = {
        "outcome": None,
        "starved": False,
        "returned": None,
        **dict.fromkeys(_NUMBERS, 0),
        **dict.fromkeys(_LISTS, ()),
    }
    fields = cast("dict[str, Any]", answer) if type(answer) is dict else {}
    whole |= {name: fields[name] for name in whole.keys() & fields.keys()}
    if (
        whole["outcome"] not in get_args(OutcomeName)
        or not all(type(whole[name]) in (int, float) for name in _NUMBERS)
        or type(whole["returned"]) not in (str, type(None))
        or not 0 <= whole["passed"] <= whole["total"]
        or not all(type(whole[name]) in (list, tuple) and {*map(type, whole[name])} <= _LISTS[name] for name in _LISTS)
    ):
        raise LostError
    return whole | {name: tuple(whole[name]) for name in _LISTS}
