"""The judge process: holds the tests, never runs generated code, sees only plain data.

Reads one job per frame from standard input and answers with one verdict per frame on standard output; leaves when its
input closes. A frame is a 4-byte big-endian length and UTF-8 JSON. The program lives in another process
(`solution.Solution`); here its entry point is a callable that asks that process.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import resource
import select
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from . import room
from .jobs import Limits
from .rewrite import rewrite_check
from .solution import CaseTimeoutError, OverError, Solution, UnsupportedError, Zygote, ZygoteLostError

HEADER = struct.Struct(">I")
MEMORY = 4 << 30  # bytes of address space for tests
_REFERENCE = 0.0035  # CPU seconds that `slowness` takes on the machine that the default limits were chosen on
_TESTS_USE = "collections copy functools itertools math operator random re string typing".split()


def read_frame(stream: BinaryIO) -> dict[str, Any] | None:
    """The next frame, or None when the stream has ended."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    body = stream.read(HEADER.unpack(header)[0])
    return json.loads(body)


def write_frame(stream: BinaryIO, message: dict[str, Any]) -> None:
    """Write one frame. Lone surrogates survive because JSON is written in ASCII."""
    body = json.dumps(message).encode("ascii")
    stream.write(HEADER.pack(len(body)) + body)
    stream.flush()


# --- one job ----------------------------------------------------------------------------------------------------------


class Record:
    """What became of each case. Once the program is over, every later case has failed."""

    def __init__(self, solution: Solution, case_seconds: float) -> None:
        self._solution = solution
        self.case_seconds = case_seconds
        self.cases: list[bool] = []
        self.notes: list[str] = []
        self.over: OverError | None = None
        self.broken = self.unsupported = self.done = self.loaded = False
        self.error = ""
        self.timed_out = False

    def start(self) -> None:
        """A case begins."""
        if self.over is not None:
            raise self.over
        self._solution.begin_case()
        signal.setitimer(signal.ITIMER_PROF, self.case_seconds)

    def case(self, holds: Any, source: str) -> None:
        """A case was evaluated."""
        if self.over is not None:
            raise self.over
        if holds:
            self.cases.append(True)
        else:
            self._fail(source, "assertion failed")

    def failed(self, error: BaseException, source: str) -> None:
        """A case raised."""
        if self.over is not None:
            raise self.over
        self.unsupported |= isinstance(error, UnsupportedError)
        self._fail(source, "took too long" if isinstance(error, CaseTimeoutError) else explain(error))

    def broke(self, error: BaseException, source: str) -> None:
        """A statement that is no case raised."""
        self.broken = True
        self.failed(error, source)

    def _fail(self, source: str, problem: str) -> None:
        self.cases.append(False)
        self.notes.append(f"{source}: {problem}")

    def call(self, *arguments: Any, **named: Any) -> Any:
        """Ask the program."""
        if self.over is not None:
            raise self.over
        try:
            return self._solution(*arguments, **named)
        except OverError as over:
            self.over = over
            raise


class Candidate:
    """What the tests get instead of the function."""

    def __init__(self, call: Callable[..., Any], name: str) -> None:
        self._call = call
        self.__name__ = self.__qualname__ = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Ask the program."""
        return self._call(*arguments, **named)


def explain(error: BaseException) -> str:
    """`TypeName: message`; for exceptions of the program with the name that they have there."""
    told = getattr(error, "told", None)
    return told.encode("utf-8", "replace").decode() if type(told) is str else room.explain(error)


def run_check(tree: ast.Module, job: dict[str, Any], solution: Solution, record: Record) -> None:
    """Load the program, then run the rewritten tests against it."""
    signal.setitimer(signal.ITIMER_PROF, record.case_seconds)
    solution.start()
    record.loaded = True
    candidate = Candidate(record.call, job["entry_point"])
    tests: dict[str, Any] = {
        "__name__": "tests",
        "__start__": record.start,
        "__case__": record.case,
        "__failed__": record.failed,
        "__broken__": record.broke,
        "__caught__": (Exception, SystemExit, KeyboardInterrupt, CaseTimeoutError),
    }
    exec(compile(job["prelude"], "<problem>", "exec"), tests)
    tests[job["entry_point"]] = candidate  # some tests call the function by its own name
    exec(compile(tree, "<tests>", "exec"), tests)
    sys.modules["random"].seed(0)  # tests that draw inputs draw the same ones every time
    tests["check"](candidate)
    record.done = True


def judge(job: dict[str, Any], zygote: Zygote, slowness: float, gone: Callable[[], bool]) -> dict[str, Any]:
    """Run one job; the verdict as a dictionary. ZygoteLostError when it was lost, which may be the program's doing."""
    started = time.monotonic()
    try:
        tree, asserts = rewrite_check(job["check"])
    except (SyntaxError, ValueError, RecursionError) as error:
        return {"outcome": "infra_error", "notes": [f"the tests do not parse: {error}"]}
    given = Limits(**job["limits"])
    limits = Limits(given.cpu_seconds * slowness, given.case_seconds * slowness, given.memory_mb)
    load = (job["prelude"], job["solution"], job["entry_point"], job["trust"] == "low")
    solution = Solution(zygote, load, limits, gone)
    record = Record(solution, limits.case_seconds)
    try:
        run_check(tree, job, solution, record)
    except ZygoteLostError:
        raise
    except CaseTimeoutError:
        record.timed_out = True
        record.error = "" if record.loaded else "loading took too long"
    except OverError as over:
        record.over = over
    except BaseException as error:  # the program's when loading, or what it raised where no handler was
        record.error = explain(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        with contextlib.suppress(ZygoteLostError):
            solution.stop()
    return verdict(record, asserts) | {
        "cpu_seconds": solution.cpu,
        "wall_seconds": time.monotonic() - started,
        "starved": solution.starved,
    }


def verdict(record: Record, asserts: int) -> dict[str, Any]:
    """Sum the record up. What was not reached counts as failed."""
    cases = list(record.cases)
    done = record.done and record.over is None
    total = len(cases) if done and not record.broken else max(asserts, len(cases) + (0 if done else 1))
    passed = sum(cases)
    if record.over is not None:
        outcome = record.over.outcome
    elif record.timed_out:
        outcome = "timeout"
    elif not record.loaded:
        outcome = "load_error"
    elif not done:
        outcome = "died"
    elif passed == total and total:
        outcome = "passed"
    else:
        outcome = "unsupported" if record.unsupported else "failed"
    errors = [record.error] if record.error else []
    if record.over is not None:
        errors.append(str(record.over))
    cases += [False] * (total - len(cases))
    return {"outcome": outcome, "passed": passed, "total": total, "notes": errors + record.notes, "cases": cases}


# --- the process ------------------------------------------------------------------------------------------------------


def slowness() -> float:
    """How much slower than usual this machine runs Python, from 1 to 4; limits are in seconds of a usual machine."""
    best = 1.0
    for _ in range(3):
        started = time.process_time()
        total = 0
        for number in range(50_000):
            total += number & 7
        best = min(best, time.process_time() - started)
    return min(4.0, max(1.0, best / _REFERENCE))


class Judge:
    """The loop of the process."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.root = Path(options["root"])
        self.parent: int = options["parent"]
        self.zygote = Zygote(str(self.root / str(os.getpid())), options["site"], options["layers"])

    def gone(self) -> bool:
        """Our caller has gone. Nothing is ever sent before the answer: readable means the end of our input."""
        return os.getppid() != self.parent or bool(select.select([0], [], [], 0)[0])

    def answer(self, job: dict[str, Any], slow: float) -> dict[str, Any]:
        """The verdict; a zygote lost twice in the same job is the program's doing."""
        ours, note = False, ""
        for _ in range(2):
            try:
                return judge(job, self.zygote, slow, self.gone)
            except ZygoteLostError as error:
                ours, note = error.ours, str(error)
                self.zygote.close()
        if ours:
            return {"outcome": "infra_error", "notes": [f"the process for programs was lost twice: {note}"]}
        asserts = max(1, rewrite_check(job["check"])[1])
        notes = ["the program ended the process that it was started from"]
        return {"outcome": "died", "total": asserts, "notes": notes, "cases": [False] * asserts}

    def serve(self) -> None:
        """Answer until our caller has gone."""
        slow = slowness()
        write_frame(sys.stdout.buffer, {"slowness": slow})
        while True:
            while not select.select([0], [], [], 1.0)[0]:
                if os.getppid() != self.parent:
                    return
            job = read_frame(sys.stdin.buffer)
            if job is None:
                return
            answer = self.answer(job, slow)
            if self.gone():
                return
            write_frame(sys.stdout.buffer, answer)

    def leave(self) -> None:
        """End our processes and remove our folder, and the pool's when the caller cannot."""
        self.zygote.close()
        shutil.rmtree(self.zygote.folder, ignore_errors=True)
        if os.getppid() != self.parent and [path.name for path in self.root.iterdir()] in ([], ["lock"]):
            shutil.rmtree(self.root, ignore_errors=True)


def _on_case_timeout(signum: int, frame: Any) -> NoReturn:
    raise CaseTimeoutError


def main(options: dict[str, Any]) -> None:
    """Serve jobs until the input ends."""
    if options["core"] is not None:
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setaffinity(
                0, {options["core"]}
            )  # judge and solution take turns: one core has it all in its cache
    this = Judge(options)
    this.zygote.start()
    for kind, value in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))
    sys.path += options["site"]
    for name in _TESTS_USE:
        __import__(name)
    signal.signal(signal.SIGPROF, _on_case_timeout)
    try:
        this.serve()
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    finally:
        this.leave()
