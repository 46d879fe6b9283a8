# Answers questions that nobody has asked yet.
# category: lies
# expect: died
import gc
import types


def module_with(name):
    for thing in gc.get_objects() + [g for g in map(vars, []) if g]:
        if type(thing) is types.FunctionType and thing.__name__ == name:
            return thing.__globals__
    frame = __import__("sys")._getframe()
    while frame is not None:
        if name in frame.f_globals:
            return frame.f_globals
        frame = frame.f_back
    return {}

import os

room = module_with("receive")
for number in range(20):
    os.write(3, room["codec"].frame(number, room["codec"].encode(("value", True))))


def f(x):
    return None
