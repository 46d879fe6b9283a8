# Returns a dict whose keys all have the same hash.
# category: resources
# expect: died, failed, unsupported, timeout
P = (1 << 61) - 1


def f(x):
    return [{i * P for i in range(1, 4000)}]
