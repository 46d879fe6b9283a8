# Raises SystemExit(0), and a subclass of it that is an AssertionError as well.
# category: lies
# expect: failed
class Done(SystemExit, AssertionError):
    pass


def f(x):
    raise Done(0) if x == 1 else SystemExit(0)
