# Recursion until the stack is full.
# category: resources
# expect: died, failed, timeout
import sys

sys.setrecursionlimit(10**9)


def f(x):
    return f([x])
