# Changes the mode and the times of a file that is not its own.
# category: escapes
# expect: failed
import os


def f(x):
    for change in (lambda: os.chmod("@SECRET@", 0o777), lambda: os.utime("@SECRET@", (1, 1))):
        try:
            change()
        except OSError:
            pass
    return None
