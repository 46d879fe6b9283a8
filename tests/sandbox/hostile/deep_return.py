# Returns a list 100,000 deep.
# category: resources
# expect: unsupported, timeout
def f(x):
    a = []
    for _ in range(100_000):
        a = [a]
    return a
