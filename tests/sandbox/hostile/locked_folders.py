# Folders that may not be read or entered.
# category: resources
# expect: failed
import os


def f(x):
    os.makedirs("a/b/c", exist_ok=True)
    open("a/b/c/file", "w").close()
    os.umask(0o777)
    os.mkdir("a/locked")
    return None
