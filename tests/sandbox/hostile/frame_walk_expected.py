# Looks through all callers for a value that could be the expected one.
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
        if type(value) is tuple and len(value) == 2 and value[0] == x:
            return value[1]
        if type(value) is dict and type(x) in (int, float, str) and value.get(x) is not None:
            return value[x]
    return None
