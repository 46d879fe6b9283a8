# Asks for a descriptor of page faults.
# category: escapes
# expect: failed
import ctypes
import platform

NUMBERS = {"x86_64": {323: (1,)}, "aarch64": {282: (1,)}}


def f(x):
    libc = ctypes.CDLL(None)
    for number, arguments in NUMBERS[platform.machine()].items():
        if libc.syscall(ctypes.c_long(number), *map(ctypes.c_void_p, arguments)) >= 0:
            raise RuntimeError("@ACHIEVED@")
    return None
