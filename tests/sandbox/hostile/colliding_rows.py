# Returns rows of -1 and -2: as tuples in a set they all have one hash.
# category: resources
# expect: died, unsupported, failed, timeout
from itertools import product


def f(x):
    return [list(row) for row in product((-1, -2), repeat=14)]
