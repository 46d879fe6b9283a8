# Attaches to its parent.
# category: escapes
# expect: failed
import ctypes
import os


def f(x):
    libc = ctypes.CDLL(None, use_errno=True)
    attached = libc.ptrace(16, os.getppid(), 0, 0)
    return "attached" if attached == 0 else None
