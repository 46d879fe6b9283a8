"""Tries the judge with programs that attack it, and looks for what they achieved or left behind.

The programs lie in `hostile/`, one file each, with a header of three lines: what it does, `# category:` (lies,
resources or escapes) and `# expect:` (the outcomes that are right for it). No program knows the answers of the tests.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

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
WRONG = "def f(x):\n    return None\n"
_MARK = "escaped"
_SLEEP = "31536"  # seconds that a process left behind sleeps: its mark in a list of processes
_SHARED_KEY = str(0x5EED)
_OFTEN_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/root", "/home", str(Path(os.__file__).parent), *sys.path)


@dataclass(frozen=True, slots=True)
class Program:
    """One hostile program.

    Attributes:
        name: Name of its file.
        about: What it does.
        category: lies, resources or escapes.
        expect: Outcomes that are right for it where every layer holds.
        source: Its text, with places still to be filled in.
    """

    name: str
    about: str
    category: str
    expect: tuple[str, ...]
    source: str


def programs(folder: Path = FOLDER) -> list[Program]:
    """All hostile programs by name."""
    found: list[Program] = []
    for path in sorted(folder.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        about, category, expect = (line.lstrip("# ") for line in source.splitlines()[:3])
        expected = tuple(word.strip() for word in expect.removeprefix("expect:").split(","))
        found.append(Program(path.stem, about, category.removeprefix("category:").strip(), expected, source))
    if not found:
        raise FileNotFoundError(f"no hostile programs in {str(folder)!r}; reinstall the package")
    return found


class Bait:
    """What hostile programs reach for: a secret, a folder, a variable, ports; and how to tell that they got there."""

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
        """A program with its places filled in."""
        places = {
            "PORT": str(self.port),
            "SOCKET": self.name,
            "SECRET": str(self.secret),
            "OUTSIDE": str(self.outside),
            "TRAINER": str(os.getpid()),
            "NUL": "\0",
            "SURROGATE": "\ud800",
            "PADDING": ("#" * 99 + "\n") * 100_000,
        }
        for name, text in places.items():
            source = source.replace(f"@{name}@", text)
        return source

    def traces(self, pool: SandboxPool) -> list[str]:
        """What was achieved or left behind; cleaned up, so that the next program is not blamed for it."""
        found = [f"{kind} was reached" for kind in self._reached()]
        for path in self.outside.iterdir():
            found.append(f"{path.name} was written outside")
            path.unlink()
        changed = self.secret.stat()
        if (changed.st_mode, changed.st_mtime, changed.st_uid) != (
            self.mode.st_mode,
            self.mode.st_mtime,
            self.mode.st_uid,
        ):
            found.append("a file of the user was changed")
            self.mode = changed
        for path in {Path(place or ".") / f"llm-dec-pomdp-{_MARK}" for place in _OFTEN_WRITABLE}:
            with contextlib.suppress(OSError):
                path.unlink()
                found.append(f"{path} was written")
        return found + self.left(pool)

    def left(self, pool: SandboxPool) -> list[str]:
        """Processes, files of the pool and shared memory that are still there."""
        found = [f"process {pid} was left" for pid in _processes_left(pool)]
        found += [f"{path} was left" for path in Path(pool.folder).glob("*/*")]
        with contextlib.suppress(OSError):
            if any(line.split()[0] == _SHARED_KEY for line in Path("/proc/sysvipc/shm").read_text().splitlines()):
                found.append("System V shared memory was left")
        return found

    def _reached(self) -> Iterator[str]:
        for listener, kind in zip(self.sockets, ("a TCP port", "a UDP port", "an abstract socket"), strict=False):
            with contextlib.suppress(BlockingIOError):
                if listener.type == socket.SOCK_DGRAM:
                    listener.recv(100)
                else:
                    listener.accept()[0].close()
                yield kind


def _processes_left(pool: SandboxPool) -> Iterator[int]:
    """Processes of this pool that are neither judge nor zygote."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            command = (path / "cmdline").read_bytes().decode("utf-8", "replace")
            if pool.folder in command or _SLEEP in command.split("\0"):
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    judges = {pid for pid, parent in parents.items() if parent == os.getpid()}
    yield from (pid for pid, parent in parents.items() if pid not in judges and parent not in judges)


@contextlib.contextmanager
def bait() -> Generator[Bait]:
    """Lay out bait, and clear it away."""
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
    """What became of one program.

    Attributes:
        program: The program.
        verdict: What the judge said.
        problems: What should not have happened; empty when it was held off.
    """

    program: Program
    verdict: Verdict
    problems: tuple[str, ...]


def attempt(pool: SandboxPool, program: Program, laid: Bait) -> Finding:
    """Judge one program, and a good one right after."""
    job = Job(laid.fill(program.source), CHECK, "f", limits=LIMITS)
    verdict, after = pool.run([job])[0], pool.run([Job(GOLD, CHECK, "f")])[0]
    problems: list[str] = []
    if verdict.passed or verdict.total != 4:
        problems.append(f"earned {verdict.passed} of {verdict.total} where a wrong program earns 0 of 4")
    if verdict.outcome in ("passed", "infra_error"):
        problems.append(f"outcome {verdict.outcome}")
    if verdict.wall_seconds > pool.slowness * LIMITS.wall_seconds + 1:
        problems.append(f"took {verdict.wall_seconds:.1f} s")
    if after.outcome != "passed":
        problems.append(f"a good program right after: {after.outcome} {after.notes}")
    if not pool.without and not verdict.weak:
        if laid.token in " ".join(verdict.notes):
            problems.append("a secret was read")
        problems += laid.traces(pool)
    return Finding(program, verdict, tuple(problems))


def examine(chosen: Iterable[Program], *, allow_weak: bool = True) -> Iterator[Finding]:
    """Try programs one after the other in a pool of its own, escapes only where something holds them."""
    with SandboxPool(1, allow_weak=allow_weak) as pool, bait() as laid:
        for program in chosen:
            if program.category != "escapes" or not pool.capabilities.missing:
                yield attempt(pool, program, laid)
