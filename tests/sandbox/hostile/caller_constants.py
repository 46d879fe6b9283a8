# Reads the constants in the code of its callers.
# category: lies
# expect: failed
import sys


def f(x):
    frame = sys._getframe(1)
    constants = []
    while frame is not None:
        constants += frame.f_code.co_consts
        frame = frame.f_back
    for before, after in zip(constants, constants[1:]):
        if before == x:
            return after
    return None
