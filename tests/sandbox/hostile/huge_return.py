# Returns far more than may travel.
# category: resources
# expect: unsupported, timeout
def f(x):
    return "x" * 60_000_000
