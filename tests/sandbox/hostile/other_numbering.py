# Makes calls by the second numbering of x86.
# category: escapes
# expect: failed
import ctypes
import platform


def f(x):
    if platform.machine() == "x86_64":
        libc = ctypes.CDLL(None)
        if libc.syscall(ctypes.c_long(0x40000000 | 39)) > 0 or libc.syscall(ctypes.c_long(0x40000000 | 41), 2, 1, 0) >= 0:
            raise RuntimeError("@ACHIEVED@")
    return None
