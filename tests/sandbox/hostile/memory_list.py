# List without end.
# category: resources
# expect: failed, timeout
def f(x):
    kept = []
    while True:
        kept.append(bytearray(1 << 20))
