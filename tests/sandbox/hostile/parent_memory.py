# Writes to the memory of its parent.
# category: escapes
# expect: failed
import os


def f(x):
    with open(f"/proc/{os.getppid()}/mem", "r+b") as file:
        file.write(b"x")
    return None
