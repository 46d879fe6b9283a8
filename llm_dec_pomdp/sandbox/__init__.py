"""Judging of generated code, in processes of its own. Standard library only; knows nothing of environments.

pool = SandboxPool()
[verdict] = pool.run([Job(solution="def f(x): return x", check="def check(candidate): ...", entry_point="f")])

| file | process | what |
|---|---|---|
| pool, worker, jobs, probes | trainer | jobs in, verdicts out; threads only wait |
| judge, rewrite, solution | judge | holds the tests, sees only plain data; is confined too |
| suite, proxies | judge | `unittest` on programs of several files, whose objects it knows by number |
| supervisor | supervisor | starts zygotes, which a confined judge cannot |
| zygote, guest, guest_objects | untrusted | loads programs and answers calls; never sees a test |
| codec, spawn, confine, seccomp | several | plain data, fresh interpreters, layers of confinement |

docs/sandbox.md says which attacks are held off and which are not.

The pool is imported when it is first used, so that describing a job costs nothing.
"""

from typing import TYPE_CHECKING, Any

from .jobs import Job, Limits, SandboxError, Verdict

if TYPE_CHECKING:
    from .pool import SandboxPool, cached_verdicts, default_pool
    from .probes import Capabilities, capabilities

__all__ = [
    "Capabilities",
    "Job",
    "Limits",
    "SandboxError",
    "SandboxPool",
    "Verdict",
    "cached_verdicts",
    "capabilities",
    "default_pool",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = "probes" if name in ("Capabilities", "capabilities") else "pool"
    return getattr(import_module(f".{module}", __name__), name)
