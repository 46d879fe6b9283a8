# Returns lone surrogates, and raises with them.
# category: resources
# expect: failed
def f(x):
    if x == 1:
        raise ValueError(chr(0xD800) * 3)
    return chr(0xDFFF)
