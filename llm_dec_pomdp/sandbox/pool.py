"""The trainer's side of the judges: it sends jobs and receives verdicts. Its threads only wait.

Judges are fresh interpreters, started with the first job. A judge that is lost is replaced, and the job is repeated.
If it is lost again, the verdict is `infra_error`, a fault of the sandbox and not of the program.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import itertools
import os
import queue
import shutil
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import confine
from .jobs import Job, SandboxError, Verdict
from .probes import Capabilities, capabilities
from .worker import LostError, TestsTooLongError, Worker, well_formed

ALLOW_WEAK = "LLM_DEC_POMDP_ALLOW_WEAK"
_PREFIX = "llm-dec-pomdp-judge-"
_AGAIN = 0.1  # maximum share of repeated runs in the time of a pool
_pools = itertools.count()


class SandboxPool:
    """A pool of judges that run programs concurrently, each in its own process with limits.

    Args:
        workers: Number of judge processes; default: one per core. They start with the first job.
        allow_weak: Also run programs if the network or the files are not protected; verdicts are then marked weak.
        site: Whether programs and tests may import installed packages, such as numpy.
        without: Layers of confinement to leave out, for tests; see `confine.LAYERS`.

    Attributes:
        slowness: Factor by which this machine is slower than the reference machine, from 1 to 4. Limits are multiplied
            by it. It is 1 before the first job.

    Several threads may use a pool, also after a fork. Use it as a context manager or call `close`; both are optional.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        allow_weak: bool = False,
        site: bool = False,
        without: Collection[str] = (),
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers is {workers}; a pool needs at least 1")
        if unknown := sorted(set(without) - set(confine.LAYERS)):
            raise ValueError(f"no layer {unknown[0]!r}; there are {', '.join(confine.LAYERS)}")
        self.workers = workers or os.cpu_count() or 1
        self.allow_weak = allow_weak
        self.site = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}) if site else []
        self.without = tuple(without)
        self.slowness = 1.0
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._alone = threading.Lock()
        self._began = 0.0
        self._again_seconds = 0.0  # in second runs
        self._idle: queue.SimpleQueue[Worker | None] | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._root = ""
        self._root_lock = -1
        self._cores = itertools.cycle(_cores())
        self._layers: tuple[str, ...] = ()
        self._weak = False
        self._owner = os.getpid()  # a forked child of the trainer must not use its parent's judges

    @property
    def capabilities(self) -> Capabilities:
        """The layers that work on this system, without those left out."""
        return capabilities().without(*self.without)

    @property
    def folder(self) -> str:
        """The folder with the files of the pool; "" before the first job."""
        return self._root

    def run(self, jobs: Sequence[Job]) -> list[Verdict]:
        """Run all jobs and return their verdicts in the same order.

        Raises:
            SandboxError: One of these: generated code cannot be confined on this system and `allow_weak` is False; the
                test of a layer of confinement did not finish, so it is not known whether the layer works; no folder for
                the files of the sandbox can be made.
        """
        self._start()
        if len(jobs) == 1:
            return [self._judge(jobs[0])]
        assert self._threads is not None
        return list(self._threads.map(self._judge, jobs))

    def close(self) -> None:
        """End the judges and remove their files; a later `run` starts new ones."""
        if self._owner != os.getpid():
            return
        with self._lock:
            if self._idle is None or self._threads is None:
                return
            self._threads.shutdown()
            for _ in range(self.workers):
                judge = self._idle.get()
                if judge is not None:
                    judge.close()
            shutil.rmtree(self._root, ignore_errors=True)
            os.close(self._root_lock)
            self._idle = self._threads = None
            atexit.unregister(self.close)

    def _start(self) -> None:
        if self._owner != os.getpid():
            self._reset()
        with self._lock:
            if self._idle is not None:
                return
            able = self.capabilities
            if able.missing and not self.allow_weak:
                raise SandboxError(able.missing)
            some = {*able.working, "limits"} - set(self.without)  # limits apply even if only some of them work
            self._layers, self._weak = tuple(name for name in confine.LAYERS if name in some), bool(able.missing)
            self._root, self._root_lock = _make_root()
            idle: queue.SimpleQueue[Worker | None] = queue.SimpleQueue()
            for _ in range(self.workers):
                idle.put(None)  # a slot; its judge starts with the first job
            self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="judge")
            self._began, self._again_seconds = time.monotonic(), 0.0
            self._idle = idle
            atexit.register(self.close)

    def _judge(self, job: Job) -> Verdict:
        assert self._idle is not None
        judge = self._idle.get()
        try:
            answer, judge = self._ask(job, judge)
        finally:
            self._idle.put(judge)
        if answer["starved"]:  # of CPU time, by other processes of this machine
            answer = self._judge_alone(job) or answer
        del answer["starved"]
        return Verdict(**answer, weak=self._weak)

    def _ask(self, job: Job, judge: Worker | None) -> tuple[dict[str, Any], Worker | None]:
        """Return the answer, and the judge for the next job."""
        for _ in range(2):
            try:
                if judge is None or judge.over:
                    judge = self._new_judge()
                return judge.run(job), judge
            except LostError:
                continue
            except TestsTooLongError:
                note = "the tests took too long with what the program returned"
                return well_formed({"outcome": "timeout", "notes": [note]}), judge
        return well_formed({"outcome": "infra_error", "notes": ["the judge process was lost twice"]}), judge

    def _judge_alone(self, job: Job) -> dict[str, Any] | None:
        """Return the answer of a run while all other judges are idle; None if no time is left for repeated runs."""
        assert self._idle is not None
        if not self._alone.acquire(blocking=False):
            return None
        started = time.monotonic()
        try:
            if self._again_seconds > _AGAIN * (started - self._began):
                return None
            judges = [self._idle.get() for _ in range(self.workers)]
            try:
                answer, judges[0] = self._ask(job, judges[0])
            finally:
                for judge in judges:
                    self._idle.put(judge)
            return answer
        finally:
            self._again_seconds += time.monotonic() - started
            self._alone.release()

    def _new_judge(self) -> Worker:
        options = {
            "root": self._root,
            "parent": os.getpid(),
            "site": self.site,
            "layers": self._layers,
            "core": next(self._cores),
        }
        judge = Worker(options)
        self.slowness = judge.slowness
        return judge

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


# --- folders and cores ------------------------------------------------------------------------------------------------


def _make_root() -> tuple[str, int]:
    """Make a folder for the files of a pool, and return it with the lock that marks it as in use."""
    last: OSError | None = None
    for parent in (None, "/dev/shm"):
        try:
            draft = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=parent))  # other pools do not remove this name
            lock = _lock(draft)
            folder = draft.rename(draft.with_name(draft.name[1:]))
        except OSError as error:
            last = error
        else:
            _sweep(folder.parent)
            return str(folder), lock
    raise SandboxError(
        f"no folder for the sandbox can be made: {last}; free some space or point TMPDIR elsewhere"
    ) from last


def _lock(folder: Path) -> int:
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _sweep(parent: Path) -> None:
    """Remove folders of pools whose trainer was killed."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if (folder / "lock").exists():
                lock = _lock(folder)
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _cores() -> Sequence[int | None]:
    """Return the cores for the judges of a pool; different pools start with different cores."""
    if sys.platform != "linux":
        return [None]
    cores = sorted(os.sched_getaffinity(0))
    first = (os.getpid() + next(_pools)) % len(cores)
    return cores[first:] + cores[:first]


# --- the shared pool --------------------------------------------------------------------------------------------------


_CACHED = 10_000  # verdicts
_verdicts: dict[Job, Verdict] = {}


def default_pool() -> SandboxPool:
    """Return the pool that all environments of this process share.

    With LLM_DEC_POMDP_ALLOW_WEAK=1 in the environment it also runs programs if the confinement is weak.
    """
    return _pool_of(os.getpid())


def cached_verdicts(jobs: Sequence[Job]) -> list[Verdict]:
    """Return the verdicts of `default_pool` in the order of the jobs. Equal jobs run once in this process."""
    verdicts = {job: verdict for job in jobs if (verdict := _verdicts.get(job)) is not None}
    new = [job for job in dict.fromkeys(jobs) if job not in verdicts]
    verdicts |= zip(new, default_pool().run(new), strict=True) if new else ()
    if len(_verdicts) > _CACHED:
        _verdicts.clear()
    _verdicts.update({job: verdict for job, verdict in verdicts.items() if verdict.outcome != "infra_error"})
    return [verdicts[job] for job in jobs]


@functools.cache
def _pool_of(pid: int) -> SandboxPool:
    """Return the pool of a process: a forked child must not use its parent's judges."""
    return SandboxPool(allow_weak=os.environ.get(ALLOW_WEAK, "") not in ("", "0"))
