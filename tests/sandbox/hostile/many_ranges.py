# Returns a hundred thousand ranges of a quarter of a million numbers each.
# category: resources
# expect: died, unsupported, failed, timeout
def f(x):
    return [range(1 << 18)] * 100_000
