"""The trainer's side of the judge: jobs in, verdicts out. Its threads only wait.

Judges are fresh interpreters started when code is first judged. A judge that is lost is replaced and the job tried once
more; lost twice, the verdict is `infra_error`, which is our fault and not the program's.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import queue
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from . import worker

OutcomeName = Literal["passed", "failed", "load_error", "timeout", "died", "unsupported", "infra_error"]
_GRACE = 10.0  # seconds beyond a job's wall limit after which a silent judge counts as lost


@dataclass(frozen=True, slots=True)
class Limits:
    """What one program may use.

    Attributes:
        cpu_seconds: CPU time in total; the wall limit is four times this plus two seconds.
        case_seconds: CPU time for loading and for each assert.
        memory_mb: Address space.
    """

    cpu_seconds: float = 5.0
    case_seconds: float = 2.0
    memory_mb: int = 512

    @property
    def wall_seconds(self) -> float:
        """Wall-clock limit of a job."""
        return 4 * self.cpu_seconds + 2


@dataclass(frozen=True, slots=True)
class Job:
    """One program and its tests.

    Attributes:
        solution: Generated source, untrusted.
        check: Source that defines `check(candidate)`.
        entry_point: Name in the solution that is handed to `check`.
        prelude: Trusted source given by the problem (imports, helpers), in scope of solution and tests.
        limits: What the program may use.
    """

    solution: str
    check: str
    entry_point: str
    prelude: str = ""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge found.

    Attributes:
        outcome: `infra_error` is our fault; everything else is the program's.
        passed: Asserts that held, each counted once per execution.
        total: Asserts that were executed or should have been.
        cases: Result of every assert in order, `total` of them.
        notes: Load error, then failed asserts with their reason, in order.
        cpu_seconds: CPU time of the program.
        wall_seconds: Wall time of the job.
    """

    outcome: OutcomeName
    passed: int = 0
    total: int = 0
    cases: tuple[bool, ...] = ()
    notes: tuple[str, ...] = ()
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0

    @property
    def loaded(self) -> bool:
        """The program could be loaded, so its tests were tried."""
        return self.outcome in ("passed", "failed") or self.passed > 0


class _LostError(Exception):
    """A judge process ended or went silent."""


class _Judge:
    """One judge process."""

    def __init__(self, root: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-S", str(Path(worker.__file__)), root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONHASHSEED": "0"},  # and nothing of ours: same verdict in every process, no secrets to read
            start_new_session=True,
        )

    def run(self, job: Job) -> Verdict:
        assert self._process.stdin and self._process.stdout
        try:
            worker.write_frame(self._process.stdin, asdict(job))  # type: ignore[arg-type]
            ready, _, _ = select.select([self._process.stdout], [], [], job.limits.wall_seconds + _GRACE)
            answer = worker.read_frame(self._process.stdout) if ready else None  # type: ignore[arg-type]
        except (OSError, ValueError) as error:
            raise _LostError from error
        if answer is None:
            raise _LostError
        answer |= {"notes": tuple(answer["notes"]), "cases": tuple(answer["cases"])}
        return Verdict(**answer)

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(OSError):  # a judge that is gone cannot take what is left in the buffer
            self._process.stdin.close()
        try:
            self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class SandboxPool:
    """Judges programs concurrently, each in a process of its own under limits.

    Args:
        workers: Judge processes; default one per core. They start when the first job comes.

    Safe to use from several threads. Use it as a context manager or call `close`; both are optional.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers is {workers}; a pool needs at least 1")
        self.workers = workers or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._idle: queue.SimpleQueue[_Judge | None] | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._root = ""
        self._owner = 0  # a forked child of the trainer must leave its parent's judges alone

    def run(self, jobs: Sequence[Job]) -> list[Verdict]:
        """Judge all jobs; verdicts in the same order."""
        self._start()
        if len(jobs) == 1:
            return [self._judge(jobs[0])]
        assert self._threads is not None
        return list(self._threads.map(self._judge, jobs))

    def close(self) -> None:
        """End the judges and remove their files; a later `run` starts new ones."""
        with self._lock:
            if self._idle is None or self._threads is None or self._owner != os.getpid():
                return
            self._threads.shutdown()
            for _ in range(self.workers):
                judge = self._idle.get()
                if judge is not None:
                    judge.close()
            shutil.rmtree(self._root, ignore_errors=True)
            self._idle = self._threads = None

    def _start(self) -> None:
        with self._lock:
            if self._idle is not None:
                return
            self._owner = os.getpid()
            self._root = tempfile.mkdtemp(prefix="llm-dec-pomdp-judge-")
            self._idle = queue.SimpleQueue()
            for _ in range(self.workers):
                self._idle.put(None)  # a slot; its judge starts with its first job
            self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="judge")
            atexit.register(self.close)

    def _judge(self, job: Job) -> Verdict:
        assert self._idle is not None
        judge = self._idle.get()
        try:
            for _ in range(2):
                try:
                    judge = judge or _Judge(self._root)
                    return judge.run(job)
                except _LostError:
                    if judge is not None:
                        judge.close()
                    judge = None
            return Verdict("infra_error", notes=("the judge process was lost twice",))
        finally:
            self._idle.put(judge)

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def default_pool() -> SandboxPool:
    """The pool that environments of this process share."""
    return _pool_of(os.getpid())


@functools.cache
def _pool_of(pid: int) -> SandboxPool:
    """One pool per process: a forked child must not talk to its parent's judges."""
    return SandboxPool()
