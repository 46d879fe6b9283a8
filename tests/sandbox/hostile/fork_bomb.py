# Forks, and every child forks: a bomb with a fuse, for systems where nothing forbids it.
# category: resources
# expect: failed, timeout, died
import os
import time


def f(x):
    for _ in range(6):
        os.fork()
    time.sleep(31536)
