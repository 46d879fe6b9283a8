# Moves and links files out of its folder.
# category: escapes
# expect: failed
import os


def f(x):
    open("escaped", "w").close()
    for move in (os.link, os.rename):
        try:
            move("escaped", "@OUTSIDE@/escaped")
        except OSError:
            pass
    return None
