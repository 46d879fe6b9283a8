# Handles every uncaught exception with success.
# category: lies
# expect: failed
import os
import sys
import threading

sys.excepthook = threading.excepthook = sys.unraisablehook = lambda *a: os._exit(0)


def f(x):
    raise ValueError("hook")
