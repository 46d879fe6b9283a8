# Asks for a queue of asynchronous input and output, and for a ring of it.
# category: escapes
# expect: failed
import ctypes
import platform

BUFFER = ctypes.create_string_buffer(512)
NUMBERS = {"x86_64": (206, 425), "aarch64": (0, 425)}


def f(x):
    libc = ctypes.CDLL(None)
    for number in NUMBERS[platform.machine()]:
        if libc.syscall(ctypes.c_long(number), ctypes.c_long(8), BUFFER) >= 0:
            raise RuntimeError("@ACHIEVED@")
    return None
