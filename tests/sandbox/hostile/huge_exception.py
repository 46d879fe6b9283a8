# Raises exceptions with huge and deep arguments.
# category: resources
# expect: failed, timeout
def f(x):
    a = []
    for _ in range(100_000):
        a = [a]
    raise ValueError("x" * 10_000_000, a)
