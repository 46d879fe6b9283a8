# Joins a session of keys of the kernel and adds one.
# category: escapes
# expect: failed
import ctypes
import platform

NUMBERS = {"x86_64": {250: (1, None, 0, 0, 0)}, "aarch64": {219: (1, None, 0, 0, 0)}}


def f(x):
    libc = ctypes.CDLL(None)
    for number, arguments in NUMBERS[platform.machine()].items():
        if libc.syscall(ctypes.c_long(number), *map(ctypes.c_void_p, arguments)) >= 0:
            raise RuntimeError("@ACHIEVED@")
    return None
