# A terabyte at import.
# category: resources
# expect: load_error
data = bytearray(1 << 40)


def f(x):
    return None
