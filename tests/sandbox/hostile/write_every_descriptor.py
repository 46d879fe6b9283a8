# Writes a verdict to every descriptor.
# category: lies
# expect: died
import os


def f(x):
    for descriptor in range(64):
        for text in (b"P", b"passed\n", b'{"outcome": "passed", "passed": 4, "total": 4}\n'):
            try:
                os.write(descriptor, text)
            except OSError:
                pass
    return None
