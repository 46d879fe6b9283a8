# Writes into every folder that is often writable.
# category: escapes
# expect: failed
import os
import sys


def f(x):
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/root", "/home", os.path.dirname(os.__file__), *sys.path):
        try:
            with open(os.path.join(folder, "llm-dec-pomdp-escaped"), "w") as file:
                file.write("escaped")
        except OSError:
            pass
    return None
