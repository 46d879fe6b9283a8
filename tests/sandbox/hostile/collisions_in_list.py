# Returns a list of a hundred thousand numbers of one hash: slow for tests that make a set of it.
# category: resources
# expect: died, unsupported, failed, timeout
P = (1 << 61) - 1


def f(x):
    return [i * P for i in range(100_000)]
