# Leaves System V shared memory behind.
# category: escapes
# expect: failed
import ctypes


def f(x):
    return ctypes.CDLL(None).shmget(0x5EED, 1 << 16, 0o1666)
