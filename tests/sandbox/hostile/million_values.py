# Returns four million values: a test that looks at each of them runs for long.
# category: resources
# expect: failed, unsupported, timeout
def f(x):
    return [True] * (4_000_000 if x == 1 else 4_194_000)
