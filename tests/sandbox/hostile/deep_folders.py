# Folders deeper than a path can be long.
# category: resources
# expect: failed, timeout, died
import os


def f(x):
    for _ in range(3000):
        os.mkdir("folder" * 20)
        os.chdir("folder" * 20)
    return None
