# Prints without end.
# category: resources
# expect: timeout, failed
import sys


def f(x):
    while True:
        sys.stdout.write("x" * 1_000_000)
        sys.stderr.write("y" * 1_000_000)
