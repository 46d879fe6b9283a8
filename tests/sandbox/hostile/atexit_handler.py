# Leaves a clean exit to atexit and ends by an exception in a thread.
# category: lies
# expect: died
import atexit
import os

atexit.register(os._exit, 0)


def f(x):
    atexit._run_exitfuncs()
