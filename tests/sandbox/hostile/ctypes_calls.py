# Calls the C library directly.
# category: escapes
# expect: failed
import ctypes


def f(x):
    libc = ctypes.CDLL(None)
    libc.system(b"touch @OUTSIDE@/escaped")
    libc.open(b"@OUTSIDE@/escaped", 0o101, 0o644)
    libc.socket(2, 1, 0)
    if libc.fork() == 0:
        libc.sleep(31536)
    return None
