"""Test of the sandbox with hostile programs, and search for their effects and leftovers.

The programs are in `hostile/`, one file each, with a header of three lines: a description, `# category:` and `#
expect:` (the correct outcomes). A fourth line, `# needs:`, names the layer if only one layer stops the program. The
categories lies, resources and escapes are solutions that do not know the answers of the tests. The category tasks has
tests and preludes of problems; their asserts hold if an escape succeeds. The category modules has programs of several
files, with `# file: path` before each except the first, which run against `unittest` tests of a class.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import confine
from .jobs import Job, Limits, Verdict
from .pool import SandboxPool

FOLDER = Path(__file__).parent / "hostile"
LIMITS = Limits(cpu_seconds=0.4, case_seconds=0.2, memory_mb=128)
CHECK = """
METADATA = {"purpose": "answers that cannot be guessed"}
def check(candidate):
    assert candidate(1) == 4242
    assert candidate([2, 3]) == {"sum": 77, "all": [9, (8, {"a": 6})]}
    assert sorted(candidate("text")) == ["q", "tt", "xee"]
    assert abs(candidate(2.5) - 11.75) < 1e-6
"""
GOLD = """
def f(x):
    if isinstance(x, list):
        return {"sum": 77, "all": [9, (8, {"a": 6})]}
    return {1: 4242, "text": ["xee", "q", "tt"], 2.5: 11.75}[x]
"""
MODULES_CHECK = """
import unittest
class TestBox(unittest.TestCase):
    def setUp(self):
        from solution import Box
        self.box = Box(3)
    def test_equal(self):
        self.assertEqual(self.box.add(4), 4242)
        self.assertTrue(self.box.sealed(3) == "q7")
    def test_close(self):
        self.assertAlmostEqual(self.box.ratio(2.5), 11.75)
    def test_contained(self):
        self.assertIn("xee", self.box.words("text"))
        self.assertEqual(len(self.box.words("text")), 17)
    def test_state(self):
        given = [2, 3]
        self.box.put("k", given)
        self.assertEqual(self.box.items, {"k": [2, 3, 77]})
        self.assertEqual(given, [2, 3, 9])
"""
WRONG = "def f(x):\n    return None\n"
SIDE_BY_SIDE = 4  # number of pools; most programs sleep or are refused immediately
_MARK = "escaped"
_SLEEP = "31536"  # seconds that a remaining process sleeps, which identifies it in a list of processes
_SHARED_KEY = str(0x5EED)
_OFTEN_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/root", "/home", str(Path(os.__file__).parent), *sys.path)


@dataclass(frozen=True, slots=True)
class Program:
    """One hostile program."""

    name: str  # name of its file
    about: str  # description
    category: str  # lies, resources, escapes, tasks or modules
    expect: tuple[str, ...]  # correct outcomes if every layer works
    source: str  # its text, with placeholders
    needs: str = ""  # the only layer that stops it

    def job(self, laid: Bait) -> Job:
        """Return the job of the program, with tests that it does not know; in the category tasks it is the tests."""
        source = laid.fill(self.source)
        if self.category == "tasks":
            return Job(WRONG, source, "f", prelude=source, limits=LIMITS)
        if self.category == "modules":
            first, *others = source.split("\n# file: ")
            files = [(other.partition("\n")[0], other.partition("\n")[2]) for other in others]
            return Job("", MODULES_CHECK, "", limits=LIMITS, modules=(("solution.py", first), *files))
        return Job(source, CHECK, "f", limits=LIMITS)


def programs(folder: Path = FOLDER) -> list[Program]:
    """Return all hostile programs, ordered by name."""
    chosen: list[Program] = []
    for path in sorted(folder.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        about, category, expect, needs = (line.lstrip("# ") for line in source.splitlines()[:4])
        expected = tuple(word.strip() for word in expect.removeprefix("expect:").split(","))
        layer = needs.removeprefix("needs:").strip() if needs.startswith("needs:") else ""
        chosen.append(Program(path.stem, about, category.removeprefix("category:").strip(), expected, source, layer))
    if not chosen:
        raise FileNotFoundError(f"no hostile programs in {str(folder)!r}; reinstall the package")
    return chosen


class Bait:
    """Targets of hostile programs (a secret, a folder, a variable, ports), and the search for their effects."""

    def __init__(self, folder: str, tcp: socket.socket, udp: socket.socket, abstract: socket.socket | None) -> None:
        self.token = "escape-" + secrets.token_hex(12)
        self.secret = Path(folder) / "secret"
        self.secret.write_text(self.token)
        self.secret.chmod(0o600)
        self.mode = self.secret.stat()
        self.outside = Path(folder) / "outside"
        self.outside.mkdir()
        self.sockets = [s for s in (tcp, udp, abstract) if s is not None]
        self.port = tcp.getsockname()[1]
        self.name = abstract.getsockname()[1:].decode() if abstract else "none"

    def fill(self, source: str) -> str:
        """Return the source of a program with its placeholders filled in."""
        places = {
            "PORT": str(self.port),
            "SOCKET": self.name,
            "SECRET": str(self.secret),
            "OUTSIDE": str(self.outside),
            "TRAINER": str(os.getpid()),
            "ACHIEVED": self.token,
            "NUL": "\0",
            "SURROGATE": "\ud800",
            "MANY_FILES": "".join(f"\n# file: m{number}.py\nx = {number}" for number in range(10_000)),
            "PADDING": ("#" * 99 + "\n") * 100_000,
        }
        for name, text in places.items():
            source = source.replace(f"@{name}@", text)
        return source

    def traces(self, pool: SandboxPool) -> list[str]:
        """Return the effects and leftovers of a program, and remove them before the next program."""
        marks = [f"{kind} was reached" for kind in self._reached()]
        for path in self.outside.iterdir():
            marks.append(f"{path.name} was written outside")
            path.unlink()
        changed = self.secret.stat()
        if any(getattr(changed, name) != getattr(self.mode, name) for name in ("st_mode", "st_mtime", "st_uid")):
            marks.append("a file of the user was changed")
            self.mode = changed
        for path in {Path(place or ".") / f"llm-dec-pomdp-{_MARK}" for place in _OFTEN_WRITABLE}:
            with contextlib.suppress(OSError):
                path.unlink()
                marks.append(f"{path} was written")
        return marks + self.left(pool)

    def left(self, pool: SandboxPool) -> list[str]:
        """Return the processes, files of the pool and shared memory that remain."""
        marks = [f"process {pid} was left" for pid in _processes_left(pool)]
        marks += [f"{path} was left" for path in Path(pool.folder).glob("*/*")]
        with contextlib.suppress(OSError):
            if any(line.split()[0] == _SHARED_KEY for line in Path("/proc/sysvipc/shm").read_text().splitlines()):
                marks.append("System V shared memory was left")
        return marks

    def _reached(self) -> Iterator[str]:
        for listener, kind in zip(self.sockets, ("a TCP port", "a UDP port", "an abstract socket"), strict=False):
            with contextlib.suppress(BlockingIOError):
                if listener.type == socket.SOCK_DGRAM:
                    listener.recv(100)
                else:
                    listener.accept()[0].close()
                yield kind


def _processes_left(pool: SandboxPool) -> Iterator[int]:
    """Yield processes of this pool except judges, supervisors, zygotes, and the prepared process of each zygote."""
    parents: dict[int, int] = {}
    born: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            command = (path / "cmdline").read_bytes().decode("utf-8", "replace")
            if pool.folder in command or _SLEEP in command.split("\0"):
                words = (path / "stat").read_text().rpartition(")")[2].split()
                parents[int(path.name)], born[int(path.name)] = int(words[1]), int(words[19])
    known = {pid for pid, parent in parents.items() if parent == os.getpid()}  # judges
    newest: Collection[int] = known
    for _ in ("keepers", "zygotes", "programs"):
        above = {*newest}
        newest = {parents[p]: p for p in sorted(born, key=lambda p: (born[p], p)) if parents[p] in above}.values()
        known.update(newest)
    yield from parents.keys() - known


@contextlib.contextmanager
def bait() -> Generator[Bait]:
    """Create the bait, and remove it at the end."""
    folder = tempfile.mkdtemp(prefix="llm-dec-pomdp-bait-")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(tcp.getsockname())
        abstract = None
        if sys.platform == "linux":
            abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
            abstract.bind("\0llm-dec-pomdp-" + secrets.token_hex(8))
            abstract.listen()
        for listener in (tcp, udp, *([abstract] if abstract else [])):
            listener.setblocking(False)
        laid = Bait(folder, tcp, udp, abstract)
        os.environ["LLM_DEC_POMDP_BAIT"] = laid.token
        stack.callback(os.environ.pop, "LLM_DEC_POMDP_BAIT", None)
        yield laid


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one hostile program."""

    program: Program
    verdict: Verdict  # of the judge
    earned: tuple[str, ...] = ()  # rewards that a wrong program must not receive
    escaped: tuple[str, ...] = ()  # effects and leftovers
    broken: tuple[str, ...] = ()  # the program took too long, or the judge failed afterwards

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems; empty if the program was stopped."""
        return self.earned + self.escaped + self.broken

    @property
    def only_late(self) -> bool:
        """Whether the program only took too long, which may be due to other programs that ran at the same time."""
        return len(self.problems) == 1 and bool(self.broken) and self.broken[0].startswith("took ")


def attempt(pool: SandboxPool, program: Program, laid: Bait) -> Finding:
    """Run a hostile program and then a good one, and return the result."""
    verdict, after = pool.run([program.job(laid)])[0], pool.run([Job(GOLD, CHECK, "f")])[0]
    tasks = program.category == "tasks"
    earned: list[str] = []
    escaped: list[str] = []
    broken: list[str] = []
    if not tasks and (verdict.passed or verdict.total != 4):
        earned.append(f"passed {verdict.passed:g} of {verdict.total} asserts, but a wrong program passes 0 of 4")
    if not tasks and verdict.outcome == "passed":
        earned.append("outcome passed")
    if verdict.outcome == "infra_error":
        broken.append("outcome infra_error")
    if verdict.wall_seconds > pool.slowness * LIMITS.wall_seconds + 1:
        broken.append(f"took {verdict.wall_seconds:.1f} s")
    if after.outcome != "passed":
        broken.append(f"the next good program: {after.outcome} {after.notes}")
    if not pool.without and not verdict.weak:
        if tasks and verdict.passed:
            escaped.append(f"{verdict.passed:g} of {verdict.total} attempts succeeded")
        if laid.token in " ".join(verdict.notes):
            escaped.append("a secret was read, or something forbidden achieved")
        escaped += laid.traces(pool)
    return Finding(program, verdict, tuple(earned), tuple(escaped), tuple(broken))


@dataclass(frozen=True, slots=True)
class Examination:
    """The results of many programs with some layers of confinement switched off."""

    without: tuple[str, ...]  # the layers that are off
    findings: tuple[Finding, ...]  # one for each program that was run
    left: tuple[str, ...]  # effects and leftovers at the end
    not_tried: tuple[str, ...]  # names of skipped programs that no remaining layer would stop

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of false passes, escapes and broken workers."""
        return {
            "false_passes": sum(bool(finding.earned) for finding in self.findings),
            "escapes": sum(bool(finding.escaped) for finding in self.findings) + len(self.left),
            "broken_workers": sum(bool(finding.broken) for finding in self.findings),
        }

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """The problems by program; leftovers of unknown programs are under `after all`."""
        by_name = {finding.program.name: finding.problems for finding in self.findings if finding.problems}
        return by_name | ({"after all": self.left} if self.left else {})


def examine(chosen: Sequence[Program], without: Sequence[str] = ()) -> Examination:
    """Run programs in parallel, in pools with one judge each, so that a good program follows in the same judge.

    If a layer is off, the search for effects and leftovers follows the last program only.
    """
    with contextlib.ExitStack() as stack:
        laid = stack.enter_context(bait())
        pools = [
            stack.enter_context(SandboxPool(1, allow_weak=True, without=without))
            for _ in range(min(SIDE_BY_SIDE, len(chosen)))
        ]
        working = set(pools[0].capabilities.working)
        held = "namespaces" in working or {"landlock", "seccomp"} <= working  # network and writing are blocked
        holds = {"": True, **{layer: layer in working for layer in confine.LAYERS}}
        tried = [p for p in chosen if holds[p.needs] and (held or p.category not in ("escapes", "tasks"))]
        free: queue.SimpleQueue[SandboxPool] = queue.SimpleQueue()

        def finding_of(program: Program) -> Finding:
            pool = free.get()
            try:
                return attempt(pool, program, laid)
            finally:
                free.put(pool)

        for pool in pools:
            free.put(pool)
        with ThreadPoolExecutor(len(pools)) as threads:
            findings = list(threads.map(finding_of, tried))
        findings = [finding_of(finding.program) if finding.only_late else finding for finding in findings]  # again
        time.sleep(0.1)  # a killed process is visible for a moment
        left = [trace for pool in pools for trace in laid.traces(pool)]
        names = {program.name for program in chosen} - {program.name for program in tried}
        return Examination(tuple(without), tuple(findings), tuple(left), tuple(sorted(names)))
