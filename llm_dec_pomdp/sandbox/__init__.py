"""Scoring of generated code in separate, confined processes. Uses only the standard library.

pool = SandboxPool()
[verdict] = pool.run([Job(solution="def f(x): return x", check="def check(candidate): ...", entry_point="f")])

| file | process | task |
|---|---|---|
| pool, worker, jobs, probes | trainer | sends jobs and receives verdicts; its threads only wait |
| judge, rewrite, solution | judge | holds the tests, receives only plain data; is confined, too |
| suite, proxies | judge | runs `unittest` on programs of several files, with proxies of their objects |
| supervisor | supervisor | starts zygotes, because a confined judge cannot |
| zygote, guest, guest_objects | untrusted | loads programs and answers calls; never sees a test |
| codec, spawn, confine, seccomp | several | plain data, fresh interpreters, layers of confinement |

docs/sandbox.md lists the attacks that are prevented and those that are not.

The pool is imported on first use, so that creating a `Job` is cheap.
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
