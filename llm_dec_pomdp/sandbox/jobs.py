"""Jobs and verdicts of the judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

OutcomeName = Literal["passed", "failed", "load_error", "timeout", "died", "unsupported", "infra_error"]


class SandboxError(RuntimeError):
    """Generated code cannot be run on this system; the message names the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one program.

    Attributes:
        cpu_seconds: Total CPU time in seconds, scaled by `SandboxPool.slowness`; the limit of wall time is four times
            this plus two seconds.
        case_seconds: CPU time in seconds for loading and for each assert, scaled in the same way. A program that sleeps
            has two more seconds of wall time; time that it waits for a core does not count.
        memory_mb: Address space in MiB, in addition to that of an empty interpreter.
    """

    cpu_seconds: float = 5.0
    case_seconds: float = 2.0
    memory_mb: int = 512

    @property
    def wall_seconds(self) -> float:
        """Limit of wall time of a job, in seconds."""
        return 4 * self.cpu_seconds + 2

    @property
    def case_wall_seconds(self) -> float:
        """Limit of wall time of a program's answers while it is loaded, or in one case, in seconds."""
        return self.case_seconds + 2


@dataclass(frozen=True, slots=True)
class Job:
    """One program and its tests.

    Attributes:
        solution: Generated source, untrusted.
        check: Source that defines `check(candidate)`.
        entry_point: Name in the solution that is passed to `check`.
        prelude: Trusted source of the problem (imports, helpers), visible to solution and tests.
        limits: Limits of the program.
        trust: "strict" refuses results that are not exactly of a builtin type; "low" takes the plain data of iterators,
            subclasses and objects with attributes instead (see docs/sandbox.md).
        modules: Generated source files by path, e.g. ("shop/cart.py", ...). If there are any, `check` is a module of
            `unittest` tests that imports them, with one verdict per test. `solution` and `entry_point` are then
            ignored, and `prelude` is in scope of the tests only.
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
    """The verdict of the judge on a program.

    Attributes:
        outcome: `infra_error` is a fault of the sandbox; every other outcome is due to the program.
        passed: Sum over the asserts of the source, each with the share of its executions that held.
        total: Number of asserts of the source that were executed or should have been, and of other statements that
            raised. If all asserts only mark errors, like `assert False`, and none was executed, the number of all
            asserts.
        notes: Load error, then the first failure of each assert with its reason, in order.
        cpu_seconds: CPU time of the program in seconds.
        wall_seconds: Wall time of the job in seconds.
        cases: Results of the first 1000 executions of asserts, in order; asserts that were not reached are False.
        shares: For each assert of the source, the share of its executions that held; 0 if it was not reached.
        weak: Whether a layer of confinement was missing.
        tests: Names of the tests of a `unittest` module, `Class.test`, in the order of `cases`.
        returned: The text that `check` returned, if any and if the program ended without a failure of its process; at
            most 100,000 characters.
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
        """Whether the program could be loaded, so that its tests were run."""
        return self.outcome in ("passed", "failed", "unsupported") or self.passed > 0
