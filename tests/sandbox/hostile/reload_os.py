# Reloads os and reaches for the functions anew.
# category: escapes
# expect: failed
import importlib
import os
import sys


def f(x):
    for name in ("os", "posix", "subprocess"):
        sys.modules.pop(name, None)
    fresh = importlib.reload(importlib.import_module("os"))
    fresh.system("touch @OUTSIDE@/escaped")
    fresh.fork()
    return None
