"""Judging of generated code, in processes of its own. Standard library only; knows nothing of environments.

pool = SandboxPool()
[verdict] = pool.run([Job(solution="def f(x): return x", check="def check(candidate): ...", entry_point="f")])

| file | process | what |
|---|---|---|
| pool, jobs, capabilities | trainer | jobs in, verdicts out; threads only wait |
| judge, rewrite, solution | judge | holds the tests, sees plain data only |
| zygote, room | untrusted | loads programs and answers calls; never sees a test |
| codec, boot, confine, seccomp | several | plain data, fresh interpreters, layers of confinement |

docs/sandbox.md says what is held off and what is not.
"""

from .capabilities import Capabilities, capabilities
from .jobs import Job, Limits, Verdict
from .pool import SandboxError, SandboxPool, default_pool

__all__ = [
    "Capabilities",
    "Job",
    "Limits",
    "SandboxError",
    "SandboxPool",
    "Verdict",
    "capabilities",
    "default_pool",
]
