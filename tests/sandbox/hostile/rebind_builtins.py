# Rebinds the builtins that tests use.
# category: lies
# expect: failed, died
import builtins

builtins.abs = lambda x: 0
builtins.sorted = lambda x, **k: x
builtins.AssertionError = type("AssertionError", (Exception,), {})
builtins.all = builtins.any = lambda x: True


def f(x):
    return None
