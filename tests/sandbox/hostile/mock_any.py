# Returns unittest.mock.ANY.
# category: lies
# expect: unsupported
from unittest.mock import ANY


def f(x):
    return ANY
