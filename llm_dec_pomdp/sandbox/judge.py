"""The judge process: it holds the tests, never runs generated code, and receives only plain data.

It reads one job per frame from standard input and writes one verdict per frame to standard output. It ends when its
input closes. An empty job before that means that the trainer continues. A frame is a 4-byte big-endian length and UTF-8
JSON. The program runs in another process (`solution.Solution`); its entry point here is a callable that sends requests
to that process.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

from . import confine, guest, suite
from .jobs import Limits
from .rewrite import CountedTests, counted_code, rewrite_check
from .solution import CaseTimeoutError, OverError, Solution, UnsupportedError, Zygote, ZygoteLostError
from .suite import cpu_limit
from .supervisor import import_site

HEADER = struct.Struct(">I")
MEMORY = 4 << 30  # bytes of address space for tests
MAX_CASES = 1_000  # results of single executions that a verdict lists
MAX_RETURNED = 100_000  # characters of a returned text
_REFERENCE = 0.0035  # CPU seconds of `slowness` on the machine for which the default limits were chosen
# Imported before the judge is confined: modules that most tests use, and modules that need system libraries.
_TESTS_USE = (
    "collections copy functools itertools math operator random re string typing "
    "bz2 ctypes decimal hashlib lzma sqlite3 uuid zlib"
).split()


def read_frame(stream: BinaryIO) -> dict[str, Any] | None:
    """Return the next frame; None at the end of the stream, {} for a frame whose writer was interrupted."""
    header = stream.read(HEADER.size)
    if not header:
        return None
    [length] = HEADER.unpack(header) if len(header) == HEADER.size else [0]
    body = stream.read(length)
    return json.loads(body) if body and len(body) == length else {}


def frame(message: dict[str, Any]) -> bytes:
    """Return the bytes of one frame; JSON is written in ASCII, which preserves lone surrogates."""
    body = json.dumps(message).encode("ascii")
    return HEADER.pack(len(body)) + body


def write_frame(stream: BinaryIO, message: dict[str, Any]) -> None:
    """Write one frame."""
    stream.write(frame(message))
    stream.flush()


# --- one job ----------------------------------------------------------------------------------------------------------


class Record:
    """The results of all asserts. Once the program is over, every later execution fails."""

    def __init__(self, solution: Solution, case_seconds: float, tests: CountedTests) -> None:
        self._solution = solution
        self.case_seconds = case_seconds
        self.tests = tests
        self.held = [0] * len(tests.asserts)  # how often each assert held
        self.ran = [0] * len(tests.asserts)  # how often each was executed, or should have been
        self.unfinished = set(tests.inner)  # asserts that would have been executed again if the tests had not ended
        self.cases: list[bool] = []  # the results in order, at most MAX_CASES
        self.notes: list[str] = []  # the first failure of each assert and statement
        self.over: OverError | None = None
        self.unsupported = self.done = self.loaded = False
        self.returned: str | None = None  # the text that the tests returned
        self.broken: set[int] = set()  # statements that raised
        self.cut: set[int] = set()  # asserts in loops that an error ended
        self.error = ""
        self.timed_out = False
        self._noted: set[str] = set()

    def start(self) -> None:
        """Start a case: set its timer and its limits."""
        if self.over is not None:
            raise self.over
        try:
            self._solution.begin_case()
        except OverError as over:
            self.over = over
            raise
        signal.setitimer(signal.ITIMER_PROF, self.case_seconds)

    def case(self, started: None, holds: Any, number: int) -> None:
        """Record the result of an assert that began with `start`."""
        if self.over is not None:
            raise self.over
        if holds:
            self.held[number] += 1
            self.ran[number] += 1
            self._list(True)
        else:
            self._fail(number, "assertion failed")

    def failed(self, error: BaseException, number: int) -> None:
        """Record an assert that raised an exception."""
        self._fail(number, self._reason(error))

    def broke(self, error: BaseException, number: int) -> None:
        """Record another statement that raised, which fails each assert within it."""
        within = self.tests.statements[number][1]
        if not isinstance(error, Exception):  # it ends the tests
            self.unfinished.update(within)
            raise error
        reason = self._reason(error)
        self.broken.add(number)
        self.cut |= self.tests.loops[number]
        for inside in within:
            self.ran[inside] += 1
        self._list(False)
        self._note(f"statement {number}", lambda: f"{self.tests.first_line(number)}: {reason}")

    def _reason(self, error: BaseException) -> str:
        if self.over is not None:
            raise self.over
        self.unsupported |= isinstance(error, UnsupportedError)
        return "took too long" if isinstance(error, CaseTimeoutError) else explain(error)

    def _fail(self, number: int, problem: str) -> None:
        self.ran[number] += 1
        self._list(False)
        self._note(f"assert {number}", lambda: f"{self.tests.claim(number)}: {problem}")

    def _list(self, held: bool) -> None:
        if len(self.cases) < MAX_CASES:
            self.cases.append(held)

    def _note(self, place: str, note: Callable[[], str]) -> None:
        if place not in self._noted:
            self._noted.add(place)
            self.notes.append(note())

    def call(self, *arguments: Any, **named: Any) -> Any:
        """Call the entry point of the program; raise OverError if the program cannot continue."""
        if self.over is not None:
            raise self.over
        try:
            return self._solution(*arguments, **named)
        except OverError as over:
            self.over = over
            raise


class Candidate:
    """The callable that the tests receive in place of the function."""

    def __init__(self, call: Callable[..., Any], name: str) -> None:
        self._call = call
        self.__name__ = self.__qualname__ = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the entry point of the program."""
        return self._call(*arguments, **named)


def explain(error: BaseException) -> str:
    """Return `TypeName: message`; exceptions of the program keep their original type name."""
    note = getattr(error, "program_note", None)
    return note.encode("utf-8", "replace").decode() if type(note) is str else guest.explain(error)


def run_check(job: dict[str, Any], solution: Solution, record: Record) -> None:
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
        "__broke__": record.broke,
        "__caught__": (Exception, SystemExit, CaseTimeoutError),
    }
    exec(compile(job["prelude"], "<problem>", "exec", dont_inherit=True), tests)
    tests[job["entry_point"]] = candidate  # some tests call the function by its name
    exec(counted_code(job["check"]), tests)
    sys.modules["random"].seed(0)  # tests with random inputs use the same ones every time
    returned = tests["check"](candidate)
    record.returned = returned[:MAX_RETURNED] if type(returned) is str else None
    record.done = True


def judge(job: dict[str, Any], zygote: Zygote, slowness: float, gone: Callable[[], bool]) -> dict[str, Any]:
    """Run one job and return the verdict as a dictionary; raise ZygoteLostError if the zygote was lost."""
    started = time.monotonic()
    if job.get("modules"):
        return suite.judge(job, zygote, slowness, gone) | {"wall_seconds": time.monotonic() - started}
    try:
        tests = rewrite_check(job["check"])
    except (SyntaxError, ValueError, RecursionError) as error:
        return {"outcome": "infra_error", "notes": [f"the tests do not parse: {error}"]}
    limits = Limits(**job["limits"])
    limits = Limits(limits.cpu_seconds * slowness, limits.case_seconds * slowness, limits.memory_mb)
    load = (job["prelude"], job["solution"], job["entry_point"], job["trust"] == "low")
    solution = Solution(zygote, load, limits, gone)
    record = Record(solution, limits.case_seconds, tests)
    try:
        with cpu_limit(limits.cpu_seconds + limits.case_seconds + 1):
            run_check(job, solution, record)
    except ZygoteLostError:
        raise
    except CaseTimeoutError:
        record.timed_out = True
        record.error = "" if record.loaded else "loading took too long"
    except OverError as over:
        record.over = over
    except BaseException as error:  # of the program while loading, or an exception outside of all handlers
        record.error = explain(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        with contextlib.suppress(ZygoteLostError):
            solution.stop()
    return verdict(record) | {
        "cpu_seconds": solution.cpu,
        "wall_seconds": time.monotonic() - started,
        "starved": solution.starved,
    }


def verdict(record: Record) -> dict[str, Any]:
    """Return the verdict of a record: an assert is worth the share of its executions that held.

    If the tests ended early, unfinished asserts have failed. Otherwise asserts that were never executed do not count.
    Tests whose asserts only mark errors are an exception: each assert has held if none was executed and no statement
    raised. An assert in a loop that an error ended has failed, because the number of missing rounds is unknown. A
    statement that raised and contains no assert counts as a failure.
    """
    done = record.done and record.over is None
    due = [number for number, ran in enumerate(record.ran) if ran or not done]
    failed = record.cut if done else record.cut | record.unfinished
    finished = [number for number in due if record.ran[number] and number not in failed]
    shares = [0.0] * len(record.ran)
    for number in finished:
        shares[number] = record.held[number] / record.ran[number]
    if done and not due and not record.broken and record.tests.only_mark_errors:
        due, shares = list(range(len(shares))), [1.0] * len(shares)
    held = sum(shares)
    total = len(due) + sum(not record.tests.statements[number][1] for number in record.broken)
    if not done and held == total:  # no assert was left: the end of the tests counts as a failure
        total += 1
    if record.over is not None:
        outcome = record.over.outcome
    elif record.timed_out:
        outcome = "timeout"
    elif not record.loaded:
        outcome = "load_error"
    elif not done:
        outcome = "died"
    elif held == total and total:
        outcome = "passed"
    else:
        outcome = "unsupported" if record.unsupported else "failed"
    errors = [record.error] if record.error else []
    if record.over is not None:
        errors.append(str(record.over))
    missing = 0 if done else max(1, record.ran.count(0))
    cases = (record.cases + [False] * missing)[:MAX_CASES]
    notes = errors + record.notes
    return {
        "outcome": outcome,
        "passed": held,
        "total": total,
        "notes": notes,
        "cases": cases,
        "shares": shares,
        "returned": record.returned if record.over is None else None,
    }


# --- the process ------------------------------------------------------------------------------------------------------


def slowness() -> float:
    """Return the factor by which this machine runs Python more slowly than the reference machine, from 1 to 4."""
    best = 1.0
    for _ in range(3):
        started = time.process_time()
        total = 0
        for number in range(50_000):
            total += number & 7
        best = min(best, time.process_time() - started)
    return min(4.0, max(1.0, best / _REFERENCE))


class JudgeLoop:
    """The main loop of the judge process."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.parent: int = options["parent"]
        self.dismissed = False  # by a trainer that continues and removes the pool's folder itself
        self.zygote = Zygote(f"{options['root']}/{os.getpid()}", options["site"], options["layers"])

    def gone(self) -> bool:
        """Return whether the caller has ended. It sends nothing before the answer, so readable input means its end."""
        return os.getppid() != self.parent or bool(select.select([0], [], [], 0)[0])

    def answer(self, job: dict[str, Any], slow: float) -> dict[str, Any]:
        """Return the verdict of a job.

        If the job loses the zygote, it runs again in a new one. If it loses the zygote twice, the outcome is
        "infra_error" if no generated code was running, and otherwise "died".

        Raises:
            BrokenPipeError: The supervisor has ended.
        """
        ours, note = False, ""
        for _ in range(2):
            try:
                return judge(job, self.zygote, slow, self.gone)
            except ZygoteLostError as error:
                ours, note = error.ours, str(error)
                self.zygote.replace()
        if ours:
            return {"outcome": "infra_error", "notes": [f"the process for programs was lost twice: {note}"]}
        notes = ["the program ended the process that it was started from"]
        if job.get("modules"):
            return suite.nothing_held("died", suite.names(job["check"]), notes)
        asserts = max(1, len(rewrite_check(job["check"]).asserts))
        nothing = {"cases": [False] * asserts, "shares": [0.0] * asserts}
        return {"outcome": "died", "total": asserts, "notes": notes, **nothing}

    def serve(self) -> None:
        """Answer jobs until the caller has gone."""
        slow = slowness()
        write_frame(sys.stdout.buffer, {"slowness": slow})
        while True:
            while not select.select([0], [], [], 1.0)[0]:
                if os.getppid() != self.parent:
                    return
            job = self.hear()
            if not job:
                return
            answer = self.answer(job, slow)
            if self.gone():
                return
            write_frame(sys.stdout.buffer, answer)
            self.zygote.prepare()

    def hear(self) -> dict[str, Any] | None:
        """Return the next job; an empty one dismisses this judge."""
        job = read_frame(sys.stdin.buffer)
        self.dismissed |= job == {}
        return job

    def leave(self) -> None:
        """End the processes of this judge and remove its folder; also the pool's folder if the caller cannot do this.

        When a trainer dies, the input of this process ends before the process has another parent.
        """
        ended = bool(select.select([0], [], [], 0)[0]) and os.getppid() == self.parent
        if ended and not self.dismissed:
            self.hear()
        self.zygote.close(trainer_gone=os.getppid() != self.parent or (ended and not self.dismissed))


def _on_case_timeout(signum: int, frame: Any) -> NoReturn:
    raise CaseTimeoutError


def main(options: dict[str, Any]) -> None:
    """Serve jobs until the input ends."""
    if options["core"] is not None:
        with contextlib.suppress(OSError, AttributeError):  # judge and program alternate and share the cache of a core
            os.sched_setaffinity(0, {options["core"]})
    this = JudgeLoop(options)
    this.zygote.open()
    for kind, value in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))
    import_site(options["site"])
    for name in _TESTS_USE:
        with contextlib.suppress(ImportError):  # some builds of Python lack it
            __import__(name)
    signal.signal(signal.SIGPROF, _on_case_timeout)
    confine.confine_judge(options["layers"], [*confine.library(), *options["site"]])
    try:
        this.serve()
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    finally:
        this.leave()
