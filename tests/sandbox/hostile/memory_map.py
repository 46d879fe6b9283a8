# Maps memory until there is none.
# category: resources
# expect: failed, timeout
import mmap

kept = []


def f(x):
    while True:
        kept.append(mmap.mmap(-1, 1 << 24))
        kept[-1].write(b"x" * (1 << 24))
