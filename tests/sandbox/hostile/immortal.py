# Asks the kernel not to be ended with its parent, and sleeps.
# category: escapes
# expect: timeout
import ctypes
import time

ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)


def f(x):
    time.sleep(31536)
