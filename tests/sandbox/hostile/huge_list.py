# Returns a list of many small things.
# category: resources
# expect: unsupported, timeout, failed
def f(x):
    return [[]] * 3_000_000
