# Leaves a daemon behind by forking twice.
# category: escapes
# expect: failed, died, timeout
import os
import time


def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            time.sleep(31536)
        os._exit(0)
    return None
