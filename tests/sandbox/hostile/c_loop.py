# Endless loop in C, where no Python signal handler runs.
# category: resources
# expect: timeout, failed
import collections
import itertools


def f(x):
    return collections.deque(itertools.repeat(0), maxlen=0)
