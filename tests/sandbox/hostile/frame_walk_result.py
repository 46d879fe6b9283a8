# Looks through all callers for lists of results to fill with success.
# category: lies
# expect: failed
import sys


def every_value():
    frame = sys._getframe()
    while frame is not None:
        yield from frame.f_locals.values()
        yield from frame.f_globals.values()
        frame = frame.f_back


def f(x):
    for value in list(every_value()):
        if type(value) is list:
            value[:] = [True] * len(value)
        elif type(value) is dict and "passed" in value:
            value.update(passed=99, outcome="passed")
        elif hasattr(value, "cases"):
            value.cases = [True] * 99
    return "nothing"
