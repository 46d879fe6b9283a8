# Returns an iterator without end.
# category: resources
# expect: unsupported, timeout
import itertools


def f(x):
    return itertools.count()
