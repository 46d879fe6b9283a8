# Kills the trainer, and stops it.
# category: escapes
# expect: failed
import os
import signal


def f(x):
    for number in (signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(os.getppid(), number)
        except OSError:
            pass
    return None
