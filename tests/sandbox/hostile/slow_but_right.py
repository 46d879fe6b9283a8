# Right, but takes more CPU than a case may.
# category: resources
# expect: timeout, failed
import time


def f(x):
    end = time.process_time() + 30
    while time.process_time() < end:
        pass
    return 4242 if x == 1 else None
