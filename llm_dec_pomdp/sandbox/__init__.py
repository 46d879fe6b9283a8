"""Judging of generated code, in processes of its own. Standard library only; knows nothing of environments.

pool = SandboxPool()
[verdict] = pool.run([Job(solution="def f(x): return x", check="def check(candidate): ...", entry_point="f")])
"""

from .pool import Job, Limits, SandboxPool, Verdict, default_pool

__all__ = ["Job", "Limits", "SandboxPool", "Verdict", "default_pool"]
