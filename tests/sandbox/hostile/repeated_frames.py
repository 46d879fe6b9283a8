# Answers the same question many times.
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


def f(x):
    room = module_with("receive")
    frame = __import__("sys")._getframe(1)
    for _ in range(5):
        room["send"](frame.f_locals["number"], ("value", True))
    return True
