# Reads and writes through symbolic links in its own folder.
# category: escapes
# expect: failed
import os


def f(x):
    os.symlink("@OUTSIDE@", "outside")
    os.symlink("@SECRET@", "secret")
    try:
        open("outside/escaped", "w").close()
    except OSError:
        pass
    raise ValueError(open("secret").read())
