# Kills its group and everything that it may.
# category: escapes
# expect: failed, died
import os
import signal


def f(x):
    if os.getppid() == 0 or os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGTERM)
    return None
