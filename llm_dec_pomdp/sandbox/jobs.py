"""What goes into a judge and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

OutcomeName = Literal["passed", "failed", "load_error", "timeout", "died", "unsupported", "infra_error"]


class SandboxError(RuntimeError):
    """Generated code cannot be judged here; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one program may use.

    Attributes:
        cpu_seconds: CPU time in total, on a usual machine (`SandboxPool.slowness` scales it); the wall limit is four
            times this plus two seconds.
        case_seconds: CPU time for loading and for each assert, scaled alike. A program that sleeps has two seconds more
            for its answers; time that it waits for a core does not count.
        memory_mb: Address space beyond that of an empty interpreter.
    """

    cpu_seconds: float = 5.0
    case_seconds: float = 2.0
    memory_mb: int = 512

    @property
    def wall_seconds(self) -> float:
        """Wall-clock limit of a job."""
        return 4 * self.cpu_seconds + 2

    @property
    def case_wall_seconds(self) -> float:
        """Wall-clock limit of a program's answers while it is loaded, or in one case."""
        return self.case_seconds + 2


@dataclass(frozen=True, slots=True)
class Job:
    """One program and its tests.

    Attributes:
        solution: Generated source, untrusted.
        check: Source that defines `check(candidate)`.
        entry_point: Name in the solution that is handed to `check`.
        prelude: Trusted source given by the problem (imports, helpers), in scope of solution and tests.
        limits: What the program may use.
        trust: "strict" refuses results that are not exactly of a builtin type; "low" takes the plain data of iterators,
            subclasses and objects with attributes instead (see docs/sandbox.md).
        modules: Generated source files by path, e.g. ("shop/cart.py", ...). Where there are some, `check` is a module
            of `unittest` tests that imports them, with one verdict for each test; `solution` and `entry_point` are
            not looked at, and `prelude` is in scope of the tests alone.
    """

    solution: str
    check: str
    entry_point: str
    prelude: str = ""
    limits: Limits = field(default_factory=Limits)
    trust: Literal["strict", "low"] = "strict"
    modules: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge found.

    Attributes:
        outcome: `infra_error` is the fault of the sandbox; everything else is the program's.
        passed: Sum over the asserts of the source of the share of its executions that held.
        total: Asserts of the source that were executed or should have been, and other statements that raised. Where all
            asserts are like `assert False`, those that were rightly not executed.
        notes: Load error, then the first failure of each assert with its reason, in order.
        cpu_seconds: CPU time of the program.
        wall_seconds: Wall time of the job.
        cases: The result of every execution of an assert in order, the first 1000; asserts not reached are False.
        shares: For every assert of the source the share of its executions that held; 0 where it was not reached.
        weak: A layer of confinement was missing.
        tests: Names of the tests of a `unittest` module, `Class.test`, in the order of `cases`.
        returned: What `check` returned, where that is text and the program ended well; its first 100,000 characters.
    """

    outcome: OutcomeName
    passed: float = 0
    total: int = 0
    notes: tuple[str, ...] = ()
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    cases: tuple[bool, ...] = ()
    shares: tuple[float, ...] = ()
    tests: tuple[str, ...] = ()
    weak: bool = False
    returned: str | None = None

    @property
    def loaded(self) -> bool:
        """The program could be loaded, so its tests were tried."""
        return self.outcome in ("passed", "failed", "unsupported") or self.passed > 0
