# Many files.
# category: resources
# expect: failed, timeout, died
import itertools


def f(x):
    for number in itertools.count():
        with open(f"file{number}", "wb") as file:
            file.write(b"x" * 500_000)
