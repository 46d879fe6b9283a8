# Kills its parent.
# category: escapes
# expect: failed
import os
import signal


def f(x):
    os.kill(os.getppid() or 1, signal.SIGKILL)
    return None
