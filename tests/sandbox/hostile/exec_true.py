# Replaces the process by one that succeeds.
# category: lies
# expect: failed
import os


def f(x):
    os.execv("/bin/true", ["true"])
