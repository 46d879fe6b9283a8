# Reads tests and solutions out of installed packages beside the standard library.
# category: escapes
# expect: failed
import glob
import os
import sys


def f(x):
    found = b""
    for folder in {os.path.dirname(os.__file__), *sys.path}:
        for path in glob.glob(folder + "/*-packages/*/*"):
            try:
                with open(path, "rb") as file:
                    found += file.read(10)
            except OSError:
                pass
    if found:
        os._exit(0)
    return None
