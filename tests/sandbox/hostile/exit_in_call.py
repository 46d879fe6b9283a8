# sys.exit(0) in a call.
# category: lies
# expect: failed
import sys


def f(x):
    sys.exit(0)
